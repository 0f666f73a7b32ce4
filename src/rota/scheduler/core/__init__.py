"""The scheduling loop without an event loop, clock and client: from events to effects. Pure.

`SchedulerCore` (`scheduler_core.py`) is one object for all drivers. A driver feeds it events (`events.py`), has it make
attempts, and carries out the effects that it returns (`effects.py`):

    core = configured.make_core(configuration, registry, start=seed)
    act(core.handle(NodeChanged("n1", node), now))      # the cluster changed
    act(core.handle(PodChanged(None, pod), now))
    while (effects := core.step(now)) is not None:      # one attempt per call; None: nothing to try now
        act(effects)
    core.next_timer()                                   # call `step` again then, if no event comes before

`now` is in seconds, on one clock that never goes back. What a driver does for an effect:

    Bind           bind the pod (PreBind, Bind, PostBind), then handle(BindingEnded(taken, status))
    Evict          evict the victims, except those that `core.revoke` releases, then handle(EvictionsEnded(...))
    PatchStatus    write the pod's condition or its nomination
    RecordEvent    write an event about the pod
    AskExtenders, AskExtendersForVictims
                   call the extenders, then handle(ExtendersAnswered(...)) or handle(VictimsAnswered(...));
                   no `step` in between
    Bound, AttemptFailed, LostRace, PermitEnded, Released, Fault
                   nothing: they say what happened, for figures, logs and caches of the driver

A binding that another scheduler prevented ends with a status that carries the API server's conflict (`lost_race`); the
core then tries the next-best node. The event loop's driver is `scheduler/scheduling_loop.py`.
"""
