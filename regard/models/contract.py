from regard.contract import *  # noqa: F403  (moved to regard/contract.py)
