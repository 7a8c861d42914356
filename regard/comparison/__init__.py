"""Models compared under the same conditions: same data, same subwords, same budget, same test set.

entrants.py   what is compared: recipes, recipes with changed settings, trained models
grid.py       several variants in one word, short names, their results as one table
queue.py      trains and evaluates each entrant once per seed; resumable
measure.py    evaluates one finished model, by its task
results.py    the results of all entrants: means over seeds, significance, tables
figures.py    BLEU by length, loss and validation curves, accuracies
page.py       the report as one HTML file
"""

from regard.comparison.queue import compare
from regard.comparison.results import Comparison

__all__ = ["Comparison", "compare"]
