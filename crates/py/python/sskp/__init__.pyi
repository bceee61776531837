from . import optuna as optuna
from . import ray as ray
from ._agent import Agent as Agent
from ._demos import Demonstrations as Demonstrations
from ._demos import collect as collect
from ._envs import RobotEnv as RobotEnv
from ._envs import robots as robots
from ._frames import Frames as Frames
from ._frames import read_runs as read_runs
from ._policy import Policy as Policy
from ._policy import export_onnx as export_onnx
from ._policy import load as load
from ._sb3 import to_sb3 as to_sb3
from ._train import Run as Run
from ._train import methods as methods
from ._train import resume as resume
from ._train import train as train
from ._vector import RobotVectorEnv as RobotVectorEnv
from ._vector import make_vec as make_vec

__version__: str
