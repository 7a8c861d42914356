"""The special pieces, which have the same ids in every vocabulary."""

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
PAD, UNK, BOS, EOS = range(len(SPECIAL_PIECES))
