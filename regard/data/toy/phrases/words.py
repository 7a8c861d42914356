"""The small words: names, pronouns, adjectives and adverbs, one row for each concept with all its translations."""

from dataclasses import dataclass

# "attributive" adjectives stand only before a noun.
# concept (=english) | what it may describe | french masculine feminine (position) | german | korean (irregular class)
_ADJECTIVES = """
big         | thing furniture food vehicle place animal closed | grand grande before           | groß        | 크다
small       | thing furniture food vehicle place animal closed machine | petit petite before | klein      | 작다
old         | vehicle town machine clothing furniture closed attributive | vieux vieille before | alt   | 오래된
aged=old    | adult animal                        | vieux vieille before          | alt         | 나이가_많다
young       | adult attributive                   | jeune jeune before            | jung        | 젊다
beautiful   | place scenery clothing sound text    | beau belle before             | schön       | 아름답다 ㅂ
new         | thing furniture vehicle machine attributive | nouveau nouvelle before       | neu         | 새
long        | text sound                          | long longue before            | lang        | 길다
red         | thing furniture vehicle closed machine | rouge rouge                   | rot         | 빨갛다 ㅎ
blue        | thing furniture vehicle closed machine | bleu bleue                    | blau        | 파랗다 ㅎ
yellow      | thing furniture vehicle closed machine | jaune jaune                   | gelb        | 노랗다 ㅎ
white       | thing furniture vehicle animal closed machine | blanc blanche                 | weiß        | 하얗다 ㅎ
black       | thing furniture vehicle animal closed machine | noir noire                    | schwarz     | 검다
expensive   | thing furniture vehicle machine | cher chère                    | teuer       | 비싸다
heavy       | thing furniture | lourd lourde                  | schwer      | 무겁다 ㅂ
light       | furniture clothing                  | léger légère                  | leicht      | 가볍다 ㅂ
clean       | clothing vehicle room closed         | propre propre                 | sauber      | 깨끗하다
dirty       | clothing vehicle room closed         | sale sale                     | schmutzig   | 더럽다 ㅂ
tired       | person animal                       | fatigué fatiguée              | müde        | 피곤하다
happy       | person                              | heureux heureuse              | glücklich   | 행복하다
sad         | person                              | triste triste                 | traurig     | 슬프다
hungry      | person animal                       | affamé affamée                | hungrig     | 배고프다
sick        | person animal                       | malade malade                 | krank       | 아프다
rich        | person                              | riche riche                   | reich       | 부유하다
poor        | person                              | pauvre pauvre                 | arm         | 가난하다
clever      | person animal                       | intelligent intelligente      | klug        | 똑똑하다
kind        | person                              | gentil gentille               | freundlich  | 친절하다
famous      | person sight                        | célèbre célèbre               | berühmt     | 유명하다
strong      | person animal                       | fort forte                    | stark       | 힘이_세다
quiet       | place                               | calme calme                   | ruhig       | 조용하다
cold        | food drink                          | froid froide                  | kalt        | 차갑다 ㅂ
hot         | dish drink                          | chaud chaude                  | heiß        | 뜨겁다 ㅂ
interesting | text print sight                    | intéressant intéressante      | interessant | 흥미롭다 ㅂ
boring      | text print                          | ennuyeux ennuyeuse            | langweilig  | 지루하다
dangerous   | vehicle                             | dangereux dangereuse          | gefährlich  | 위험하다
"""

# concept | kind | french | german | korean
_ADVERBS = """
slowly       | manner    | lentement          | langsam        | 천천히
quickly      | manner    | rapidement         | schnell        | 빨리
calmly       | manner    | calmement          | ruhig          | 차분하게
quietly      | manner    | silencieusement    | leise          | 조용히
well         | well      | bien               | gut            | 잘
always       | frequency | toujours           | immer          | 항상
often        | frequency | souvent            | oft            | 자주
sometimes    | frequency | parfois            | manchmal       | 가끔
yesterday    | past      | hier               | gestern        | 어제
last_week    | past      | la_semaine_dernière | letzte_Woche  | 지난주에
this_morning | past      | ce_matin           | heute_Morgen   | 오늘_아침에
today        | present   | aujourd'hui        | heute          | 오늘
now          | present   | maintenant         | jetzt          | 지금
every_day    | present   | tous_les_jours     | jeden_Tag      | 매일
every_evening | present  | tous_les_soirs     | jeden_Abend    | 매일_저녁
tomorrow     | future    | demain             | morgen         | 내일
next_week    | future    | la_semaine_prochaine | nächste_Woche | 다음_주에
tonight      | future    | ce_soir            | heute_Abend    | 오늘_저녁에
soon         | future    | bientôt            | bald           | 곧
"""

# name | gender | korean
_NAMES = """
Anna   | f | 안나
Marie  | f | 마리
Julia  | f | 줄리아
Sarah  | f | 사라
Emma   | f | 에마
Paul   | m | 폴
Thomas | m | 토마스
Daniel | m | 다니엘
Martin | m | 마르틴
Simon  | m | 시몬
"""

NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
POSSESSIVES = ("my", "his", "her", "our", "their")
PRONOUNS = ("I", "he", "she", "we", "they")


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective in four languages, with what it may describe."""

    english: str
    tags: tuple[str, ...]
    french: str
    french_feminine: str
    french_before: bool
    german: str
    korean: str
    korean_class: str


@dataclass(frozen=True, slots=True)
class Adverb:
    """An adverb in four languages; a phrase's words stand in a tuple."""

    kind: str
    english: tuple[str, ...]
    french: tuple[str, ...]
    german: tuple[str, ...]
    korean: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A first name, the same in all the Latin alphabets here."""

    latin: str
    gender: str
    korean: str


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in table.strip().splitlines()]


def _adjective(cells: list[str]) -> Adjective:
    english, tags, french, german, korean = cells
    masculine, feminine, *before = french.split()
    stem, *irregular = korean.split()
    return Adjective(
        english.rpartition("=")[2],
        tuple(tags.split()),
        masculine,
        feminine,
        bool(before),
        german,
        stem,
        irregular[0] if irregular else "",
    )


def _adverb(cells: list[str]) -> Adverb:
    english, kind, french, german, korean = (tuple(cell.split("_")) for cell in cells)
    return Adverb(kind[0], english, french, german, korean)


ADJECTIVES: dict[str, Adjective] = {cells[0].partition("=")[0]: _adjective(cells) for cells in _rows(_ADJECTIVES)}
ADVERBS: dict[str, Adverb] = {cells[0]: _adverb(cells) for cells in _rows(_ADVERBS)}
NAMES: dict[str, Name] = {cells[0]: Name(*cells) for cells in _rows(_NAMES)}


def adverbs_of(kind: str) -> tuple[str, ...]:
    """The concepts of one kind of adverb."""
    return tuple(key for key, adverb in ADVERBS.items() if adverb.kind == kind)
