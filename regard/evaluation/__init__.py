"""Evaluation: metrics over strings, word links and arrays, and the report of a model.

scores      BLEU, chrF and TER with their signatures; perplexity
by_length   BLEU by the length of the source sentence: rows, a table, a bar chart, a picture
alignment   word links: reading, alignment error rate, links out of attention weights

report      all of that for a model and a test set; forced: forced decoding of the references
text_report the report as lines of text

Only `forced` needs a model and imports torch.
"""
