"""Measures over strings, word links and arrays; nothing here knows a model or imports torch.

scores      BLEU, chrF and TER with their signatures; perplexity
by_length   BLEU by the length of the source sentence: rows, a table, a bar chart, a picture
alignment   word links: reading, alignment error rate, links out of attention weights
overlap     test sentences that occur in the training text
compare     is the difference between two systems more than chance
"""
