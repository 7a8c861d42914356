"""Building blocks of models: linear layers, recurrent cells, attention, image attention."""
