"""French forms: conjugation, agreement, elision."""

from dataclasses import dataclass

from regard.data.toy.phrases.tokens import Token

VOWELS = "aeiouyàâéèêëîïôœùûh"
# Words that begin like a vowel but refuse elision.
ASPIRATED = ("huit", "onze")
ELIDED = ("le", "la", "de", "que", "ne", "je", "me", "se")
# The prenominal adjectives with a form of their own before a vowel.
BEFORE_VOWEL = {"vieux": "vieil", "beau": "bel", "nouveau": "nouvel"}
NUMBERS = {
    "two": "deux",
    "three": "trois",
    "four": "quatre",
    "five": "cinq",
    "six": "six",
    "seven": "sept",
    "eight": "huit",
    "nine": "neuf",
    "ten": "dix",
}
SUBJECTS = {"I": "je", "he": "il", "she": "elle", "we": "nous", "they": "ils"}
CLITICS = {"I": "me", "he": "le", "she": "la", "we": "nous", "they": "les"}
STRESSED = {"I": "moi", "he": "lui", "she": "elle", "we": "nous", "they": "eux"}
POSSESSIVES = {
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
SUBJECT_NUMBERS = ("je", "il", "nous", "vous", "ils")

# infinitive: je il nous vous ils, participle, future stem
_IRREGULAR = """
être: suis est sommes êtes sont été ser
avoir: ai a avons avez ont eu aur
aller: vais va allons allez vont allé ir
dormir: dors dort dormons dormez dorment dormi dormir
rire: ris rit rions riez rient ri rir
attendre: attends attend attendons attendez attendent attendu attendr
partir: pars part partons partez partent parti partir
lever: lève lève levons levez lèvent levé lèver
courir: cours court courons courez courent couru courr
revenir: reviens revient revenons revenez reviennent revenu reviendr
voir: vois voit voyons voyez voient vu verr
boire: bois boit buvons buvez boivent bu boir
lire: lis lit lisons lisez lisent lu lir
écrire: écris écrit écrivons écrivez écrivent écrit écrir
acheter: achète achète achetons achetez achètent acheté achèter
vendre: vends vend vendons vendez vendent vendu vendr
appeler: appelle appelle appelons appelez appellent appelé appeller
ouvrir: ouvre ouvre ouvrons ouvrez ouvrent ouvert ouvrir
nettoyer: nettoie nettoie nettoyons nettoyez nettoient nettoyé nettoier
apprendre: apprends apprend apprenons apprenez apprennent appris apprendr
perdre: perds perd perdons perdez perdent perdu perdr
peindre: peins peint peignons peignez peignent peint peindr
conduire: conduis conduit conduisons conduisez conduisent conduit conduir
connaître: connais connaît connaissons connaissez connaissent connu connaîtr
suivre: suis suit suivons suivez suivent suivi suivr
envoyer: envoie envoie envoyons envoyez envoient envoyé enverr
dire: dis dit disons dites disent dit dir
croire: crois croit croyons croyez croient cru croir
savoir: sais sait savons savez savent su saur
espérer: espère espère espérons espérez espèrent espéré espérer
pouvoir: peux peut pouvons pouvez peuvent pu pourr
devoir: dois doit devons devez doivent dû devr
vouloir: veux veut voulons voulez veulent voulu voudr
pleuvoir: pleus pleut pleuvons pleuvez pleuvent plu pleuvr
faire: fais fait faisons faites font fait fer
"""
WITH_ETRE = ("arriver", "partir", "lever", "réveiller", "revenir", "rester", "aller")
_IMPERFECT = ("ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "a", "ons", "ez", "ont")


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The forms of a verb for je, il, nous, vous, ils."""

    infinitive: str
    present: tuple[str, ...]
    imperfect: tuple[str, ...]
    future: tuple[str, ...]
    participle: str
    with_etre: bool


def _regular(infinitive: str) -> list[str]:
    """Verbs in -er; a g stays soft before o, a y before a silent e is kept out of this table."""
    stem = infinitive[:-2]
    soft = "e" if stem.endswith("g") else ""
    present = [stem + "e", stem + "e", stem + soft + "ons", stem + "ez", stem + "ent"]
    return [*present, stem + "é", infinitive]


def _conjugate(infinitive: str, forms: list[str]) -> Conjugation:
    stem = "ét" if infinitive == "être" else forms[2][:-3]
    return Conjugation(
        infinitive,
        tuple(forms[:5]),
        tuple(stem.removesuffix("e") + ending if ending[0] == "i" else stem + ending for ending in _IMPERFECT),
        tuple(forms[6] + ending for ending in _FUTURE),
        forms[5],
        infinitive in WITH_ETRE,
    )


_TABLE = {
    infinitive: _conjugate(infinitive, forms.split())
    for infinitive, forms in (row.split(":") for row in _IRREGULAR.strip().splitlines())
}


def conjugation(infinitive: str) -> Conjugation:
    """The forms of a verb, regular or not; computed once."""
    if infinitive not in _TABLE:
        _TABLE[infinitive] = _conjugate(infinitive, _regular(infinitive))
    return _TABLE[infinitive]


def starts_with_vowel(text: str) -> bool:
    """Whether the word before is elided."""
    return text[0].lower() in VOWELS and not text.startswith(ASPIRATED)


def adjective_form(masculine: str, feminine: str, gender: str, plural: bool, following: str | None) -> str:
    """The form that agrees; `following` is the next word if the adjective stands before a noun."""
    if gender == "f":
        return feminine + ("s" if plural else "")
    if plural:
        return masculine if masculine[-1] in "sx" else masculine + ("x" if masculine.endswith("eau") else "s")
    if following is not None and masculine in BEFORE_VOWEL and starts_with_vowel(following):
        return BEFORE_VOWEL[masculine]
    return masculine


def participle_form(participle: str, gender: str, plural: bool) -> str:
    """The past participle that agrees."""
    form = participle + ("e" if gender == "f" else "")
    return form + "s" if plural and not form.endswith("s") else form


def elide(tokens: list[Token]) -> list[Token]:
    """Join "le homme" to "l'homme": the elided word's links become possible ones."""
    result: list[Token] = []
    for token in reversed(tokens):
        if result and _elides(token.text, result[-1].text):
            following = result[-1]
            following.text = token.text[:-1] + "'" + following.text
            following.possible += token.sure + token.possible
        else:
            result.append(token)
    result.reverse()
    return result


def _elides(text: str, following: str) -> bool:
    if text == "si" or text.endswith(" si"):
        return following in ("il", "ils")
    return text in ELIDED and starts_with_vowel(following)
