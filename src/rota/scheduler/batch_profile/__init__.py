"""The batch profile of a scheduler: pods of groups are decided in passes and bound group by group."""
