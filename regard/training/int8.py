"""The BLEU of a finished model in float32 and int8, which decides `search.int8 = "auto"`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from regard.data.text.parallel import Pair
from regard.evaluation.scores import corpus_scores
from regard.inference.translator import Translator


def measure_int8(translator: Translator, pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """Greedy BLEU of both kinds of weights with the compiled engine that "auto" selects; None without one."""
    engine = "ctranslate2" if translator.recipe.model.kind == "transformer" else "onnxruntime"
    if translator.read_only_model.compilable() is None or find_spec(engine) is None or str(translator.device) != "cpu":
        return None
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]

    def bleu(int8: bool) -> float:
        search = {"engine": engine, "int8": int8, "beam": 1, "n_best": 1, "replace_unknown": False, "sample": False}
        simple = {"coverage_penalty": 0.0, "min_length_ratio": 0.0, "no_repeat_ngram": 0, "shortlist": False}
        texts = [each.text for each in translator.translate(sources, search={**search, **simple})]
        return round(corpus_scores(texts, references, metrics=("bleu",), tokenize="auto")["bleu"].value, 6)

    return {"engine": engine, "sentences": len(pairs), "float32_bleu": bleu(False), "int8_bleu": bleu(True)}
