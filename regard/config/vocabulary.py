"""Special tokens; their ids are the same in every vocabulary."""

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
PAD, UNK, BOS, EOS = range(len(SPECIAL_PIECES))
