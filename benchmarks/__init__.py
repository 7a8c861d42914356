"""Side-by-side measurements against other toolkits; not part of the installed package."""
