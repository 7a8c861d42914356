"""The machine that Regard runs on: what its processor really executes, and a report for `regard info --machine`."""
