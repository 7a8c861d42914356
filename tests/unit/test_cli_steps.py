"""`regard steps`: what it prints, what it reads, and how it refuses."""

import json
import math

import pytest

from regard.cli import main

TEXTBOOK = """\
score dot: score(q, k) = qᵀk

query q                                                                   (1, 3)
    q1  10   5  10

keys k, and values v = k                                                  (4, 3)
    k1  0  1  1
    k2  5  0  1
    k3  1  1  0
    k4  0  5  1

1. scores: compare the query with every key                               (1, 4)
        k1  k2  k3  k4
    q1  15  60  15  35

2. weights: softmax of the scores, each row sums to 1                     (1, 4)
              k1        k2        k3        k4
    q1  2.86e-20         1  2.86e-20  1.39e-11

   scaled_dot, scores / √3, would give                                    (1, 4)
              k1        k2        k3        k4
    q1  5.21e-12         1  5.21e-12  5.39e-07

3. weighted values: each value times its weight                        (1, 4, 3)
    v1         0  2.86e-20  2.86e-20
    v2         5         0         1
    v3  2.86e-20  2.86e-20         0
    v4         0  6.94e-11  1.39e-11

4. context: the sum of the weighted values                                (1, 3)
    c1         5  6.94e-11         1

5. concatenate context and query: [context; query]                        (1, 6)
    o1         5  6.94e-11         1        10         5        10
"""


def run_json(capsys, *options):
    assert main(["steps", "--format", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_row_without_keys_does_not_sum_to_1(capsys):
    assert main(["steps", "--mask", "0,0,0,0"]) == 0
    said = capsys.readouterr().out
    assert "2. weights: softmax of the scores, each row sums to 1, or 0 if masked" in said


def test_the_textbook_example(capsys):
    assert main(["steps", "--example", "textbook"]) == 0
    assert capsys.readouterr().out == TEXTBOOK


def test_the_default_goes_on_to_the_next_word(capsys):
    steps = run_json(capsys)
    assert steps["weights"][0] == pytest.approx([0.123, 0.551, 0.123, 0.203], abs=6e-4)
    assert sum(steps["probabilities"][0]) == pytest.approx(1)
    assert "probabilities" not in run_json(capsys, "--keys", "1,1,1")
    own = run_json(capsys, "--query", "1", "--keys", "2", "--wc", "0.5,0.5", "--wp", "1;2")
    assert own["attentional"][0] == pytest.approx([math.tanh(1.5)])
    assert len(own["probabilities"][0]) == 2


def test_padding_a_window_and_several_heads(capsys):
    assert run_json(capsys, "--mask", "1,1,0,0")["weights"][0][2:] == [0, 0]
    local = run_json(capsys, "--centre", "2.5", "--window", "1", "--gaussian")
    assert local["mask"] == [[False, True, True, False]]
    assert sum(local["weights"][0]) == pytest.approx(math.exp(-0.5))
    heads = run_json(capsys, "--self", "1,0;0,1;1,1", "--heads", "2", "--causal", "--wo", "1;1")
    assert len(heads["heads"]) == 2
    assert heads["heads"][0]["weights"][0] == [1, 0, 0]
    assert [len(row) for row in heads["output"]] == [1, 1, 1]


def test_own_vectors(capsys):
    steps = run_json(capsys, "--query", "-1,0", "--keys", "1,0; 0,1", "--values", "5; 7", "--score", "scaled_dot")
    assert steps["scores"] == [[pytest.approx(-(2**-0.5)), 0]]
    assert steps["values"] == [[5], [7]]
    assert steps["output"][0][1:] == [-1, 0]


@pytest.mark.parametrize("typed", ["1,2;3,4", " 1 2 ; 3 4; ", "[[1,2],[3,4]]", "1, 2\n3, 4\n"])
def test_ways_to_type_a_matrix(capsys, typed):
    assert run_json(capsys, "--query", "1,1", "--keys", typed)["keys"] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("name", "content"), [("k.csv", "\ufeff1,2\r\n3,4\r\n"), ("k.json", "[[1, 2], [3, 4]]\n")])
def test_matrices_from_files(capsys, tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    assert run_json(capsys, "--query", "1,1", "--keys", str(path))["keys"] == [[1, 2], [3, 4]]


def test_self_attention_with_projections(capsys):
    steps = run_json(capsys, "--self", "1,0;0,1", "--wq", "2,0;0,2", "--wv", "3;4", "--causal")
    assert steps["score"] == "scaled_dot"
    assert steps["query"] == [[2, 0], [0, 2]]
    assert steps["values"] == [[3], [4]]
    assert steps["weights"][0] == [1, 0]
    assert steps["output"] == steps["context"]


def test_weights_of_a_score(capsys):
    options = ["--query", "1", "--keys", "1;2", "--score", "additive"]
    steps = run_json(capsys, *options, "--weight", "1", "--weight", "1", "--weight", "3")
    assert steps["scores"][0] == pytest.approx([3 * 0.9640275801, 3 * 0.9950547537])
    sharp = run_json(capsys, "--query", "3,4", "--keys", "0,2;1,0", "--score", "cosine", "--sharpness", "5")
    assert sharp["scores"][0] == pytest.approx([4, 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--query", "1,x"], "--query: 'x' is not a number"),
        (["--query", "1,,2"], "--query: '' is not a number"),
        (["--keys", "1,2;3"], "--keys: row 2 has 1 numbers but row 1 has 2"),
        (["--keys", ""], "--keys: it is empty"),
        (["--keys", "[[1,2],3]"], "--keys: 3 is not a row"),
        (["--keys", "[1,"], "--keys: this is not JSON"),
        (["--keys", "[true]"], "--keys: True is not a number"),
        (["--keys", "[[1," + "0" * 5000 + "]]"], "--keys"),
        (["--keys", "missing.csv"], "--keys missing.csv: there is no such file"),
        (["--query", "nan,1,1"], "query: it holds a number that is not finite"),
        (["--query", "1,2"], "a query has 2 numbers but a key has 3"),
        (["--score", "cosin"], "there is no score 'cosin': did you mean 'cosine'?"),
        (["--wq", "1"], "--wq: it goes with --self"),
        (["--causal"], "--causal: it goes with --self"),
        (["--self", "1", "--keys", "1"], "--keys: with --self the rows are all three"),
        (["--mask", "1,1"], "it must be (1, 4)"),
        (["--gaussian"], "--gaussian: it goes with --centre and --window"),
        (["--centre", "2"], "give both --centre and --window"),
        (["--heads", "2"], "they cannot be split into 2 heads"),
        (["--wo", "1"], "--wo: it goes with --heads"),
        (["--wp", "1"], "--wp: it goes with --wc"),
        (["--self", "1", "--wc", "1"], "--wc: it goes with a decoder's query"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, options, message):
    assert main(["steps", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_unreadable_files_are_one_line(capsys, tmp_path):
    folder, binary = tmp_path / "folder.csv", tmp_path / "binary.csv"
    folder.mkdir()
    binary.write_bytes(b"\xff\xfe\x00")
    assert main(["steps", "--keys", str(folder)]) == 2
    assert "this is a folder" in capsys.readouterr().err
    assert main(["steps", "--keys", str(binary)]) == 2
    assert "not UTF-8" in capsys.readouterr().err
