"""The special ids have one home."""

import re
from pathlib import Path

import regard
from regard.config.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK


def test_ids_are_places_in_the_special_pieces() -> None:
    assert [SPECIAL_PIECES[number] for number in (PAD, UNK, BOS, EOS)] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_no_other_file_says_them() -> None:
    said = re.compile(r'^(PAD|UNK|BOS|EOS)\b[^=\n]*=|\b(pad|unk|bos|eos)(_id"|: int =)[: ]*[0-3]\b', re.MULTILINE)
    files = Path(regard.__file__).parent.rglob("*.py")
    assert [file.name for file in files if said.search(file.read_text("utf-8"))] == ["vocabulary.py"]
