"""The synchronous grammar: random sentences as trees, which each language then renders."""

from __future__ import annotations

from regard.data.toy.phrases.clauses import TENSES, ClauseGrammar
from regard.data.toy.phrases.nominals import Source
from regard.data.toy.phrases.trees import Clause, Complex, Mood, NounPhrase, Sentence, Tense, Unit, VerbPhrase, Word
from regard.data.toy.phrases.verbs import VERBS

_COMMANDS = tuple(key for key, verb in VERBS.items() if "command" in verb.flags)


class Grammar(ClauseGrammar):
    """Draws sentences: clauses in a row, complex sentences, questions and commands."""

    def sentence(self, clauses: int) -> Sentence:
        """A sentence of about so many clauses."""
        self.source = Source(self.rng)
        self.structures = []
        self.held_out = 0
        draw = self.rng.random()
        if clauses == 1 and draw < 0.16:
            return self.question()
        if clauses == 1 and draw < 0.22:
            return self.command()
        units: list[Unit] = []
        connectives: list[Word] = []
        tense = TENSES[int(self.rng.random() * 5)]
        while clauses > 0:
            if clauses > 1 and self.rng.random() < 0.5:
                units.append(self.complex(tense))
                clauses -= 2
            else:
                units.append(self.clause("main", tense))
                clauses -= 1
            # A story mostly stays in its time.
            tense = tense if self.rng.random() < 0.75 else TENSES[int(self.rng.random() * 5)]
            if len(units) > 1:
                contrast = self.rng.random() < 0.4 and not (connectives and connectives[-1].concept == "but")
                connectives.append(self.source.word("but" if contrast else "and"))
        self.structures.append("+".join(["sentence", *(word.concept for word in connectives)]))
        return Sentence(units, connectives)

    def complex(self, tense: Tense) -> Complex:
        """A main clause with "because", "when", "if" or "even though"."""
        source = self.source
        draw = source.random()
        first = source.random() < 0.4
        if draw < 0.35:
            connective, inner = "because", "past" if tense == "past" else "present"
        elif draw < 0.6:
            connective, inner = "when", "past" if tense == "past" else "present"
        elif draw < 0.8:
            connective, inner = "if", "present"
            tense = "present" if tense == "past" else tense
        else:
            connective, inner = "even though", "past" if tense == "past" else "present"
        word = source.word(connective)
        self.structures.append(connective.replace(" ", "-") + ("-first" if first else "-last"))
        inner_tense: Tense = "past" if inner == "past" else "present"
        subordinate = self.clause("subordinate", inner_tense)
        if connective == "when" and tense == "future":
            subordinate.aspect = "after future"
        # People do nothing that makes the weather or the animals in the park, so these have no reasons here.
        main = self.clause("after" if first else "main", tense, in_story=False, used=self.source.used)
        return Complex(word, main, subordinate, first)

    def question(self) -> Sentence:
        """A question: yes or no, who, what, where, why."""
        source = self.source
        moods: tuple[Mood, ...] = ("yes-no", "yes-no", "who", "what", "where", "why")
        mood = moods[int(source.random() * len(moods))]
        while True:
            clause = self.clause("question", TENSES[int(source.random() * 5)])
            last = clause.phrases[0].recipient or clause.phrases[0].object
            if not (last is not None and last.heavy) and _suits(clause, mood):
                break
        self.structures.append("question-" + mood)
        sentence = Sentence([clause], [], mood, source.part(), source.part())
        if mood == "who":
            clause.subject = None
        elif mood == "what":
            clause.phrases[0].object = None
        elif mood == "where":
            clause.phrases[0].place = None
        return sentence

    def command(self) -> Sentence:
        """A polite command, or its negative."""
        source = self.source
        outer = source.skeleton
        while True:
            source.skeleton = ["command"]
            marks = len(self.structures), self.held_out
            concept = source.pick(_COMMANDS)
            clause = Clause("normal", "present", [VerbPhrase(source.word(concept))])
            if source.chance(0.25, "not"):
                clause.negation = source.word("not")
            self.complete(clause, "relative")
            thing = clause.phrases[0].object
            if not (isinstance(thing, NounPhrase) and thing.kind == "pronoun") and self.keep(marks):
                break
        source.skeleton = outer
        return Sentence([clause], [], "imperative", source.part())


def _suits(clause: Clause, mood: Mood) -> bool:
    """Whether a clause can be asked about in this way."""
    phrase, verb = clause.phrases[0], VERBS[clause.phrases[0].verb.concept]
    if clause.negation is not None or (isinstance(clause.subject, NounPhrase) and clause.subject.heavy):
        return False
    if mood == "what":
        return verb.frame == "transitive" and "person" not in verb.objects and phrase.place is None
    if mood == "where":
        return phrase.place is not None and phrase.companion is None
    if mood == "who":
        return isinstance(clause.subject, NounPhrase) and verb.subject == "person"
    return True
