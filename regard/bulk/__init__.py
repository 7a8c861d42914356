"""Translation of folders of files (shards), on one machine or on a Ray cluster.

`run.translate_shards` finds the shards, skips finished ones, and hands the others to an executor: `local.py` (this
process) or `cluster.py` (Ray actors). Both run `work.translate_shard`, so that their output is equal byte for byte.
"""
