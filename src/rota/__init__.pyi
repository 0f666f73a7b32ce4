from rota.python.clients import AsyncClient as AsyncClient
from rota.python.clients import Client as Client
from rota.python.executors import Executor as Executor
from rota.python.failures import Deleted as Deleted
from rota.python.failures import Evicted as Evicted
from rota.python.failures import NoResult as NoResult
from rota.python.failures import NotPicklable as NotPicklable
from rota.python.failures import NotReachable as NotReachable
from rota.python.failures import OutOfMemory as OutOfMemory
from rota.python.failures import Refused as Refused
from rota.python.failures import RemoteError as RemoteError
from rota.python.failures import RemoteTraceback as RemoteTraceback
from rota.python.failures import TaskDied as TaskDied
from rota.python.failures import TaskLost as TaskLost
from rota.python.failures import TimedOut as TimedOut
from rota.python.failures import TooLarge as TooLarge
from rota.python.failures import WrongEnvironment as WrongEnvironment
from rota.python.futures import Future as Future
from rota.python.futures import as_completed as as_completed
from rota.python.futures import results as results
from rota.python.futures import wait as wait
from rota.python.options import OptionError as OptionError
from rota.python.options import from_secret as from_secret
from rota.python.tasks import Task as Task
from rota.python.tasks import task as task

__version__: str
