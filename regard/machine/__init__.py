"""The machine: tests of the processor's instruction sets, and the report of `regard info --machine`."""
