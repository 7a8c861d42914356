"""For models of your own: `check_contract` tells the first promise of the contract that a model breaks."""

from regard.models.check import check_contract

__all__ = ["check_contract"]
