# ruff: noqa: E501 (a table row stays on one line, and Korean letters count twice)
"""The verbs: one row for each concept, with its word in every language."""

from dataclasses import dataclass

# english past | frame | subject : objects | flags | french | german present participle (auxiliary) | korean
# Flags: "state" (French imperfect for the English simple past), "manner" and "well" (adverbs that suit it),
# "command" (makes a sensible imperative), "with" (may be done with somebody), "somewhere" (may be done at a place),
# "definite" (objects with an article, no indefinite one), "unwilled" (nothing one must or wants to do),
# "timeless" (without future and adverbs of frequency).
# German: a bar parts a separable prefix. Korean: the consonant after a stem names its irregular class; a particle
# replaces the object's 을/를.
_TABLE = """
sleep slept    | intransitive | animate | well somewhere      | dormir      | schlafen schläft geschlafen         | 자다
laugh          | intransitive | person  | with                | rire        | lachen lacht gelacht                | 웃다
cry cried      | intransitive | person  | somewhere unwilled | pleurer     | weinen weint geweint                | 울다
sing sang      | intransitive | person  | with somewhere | chanter     | singen singt gesungen               | 노래하다
dance          | intransitive | person  | with somewhere | danser      | tanzen tanzt getanzt                | 춤추다
work           | intransitive | person  | well with somewhere manner | travailler | arbeiten arbeitet gearbeitet   | 일하다
swim swam      | intransitive | person  |                | nager       | schwimmen schwimmt geschwommen sein | 수영하다
wait           | intransitive | animate | somewhere command   | attendre    | warten wartet gewartet              | 기다리다
arrive         | intransitive | person  | unwilled            | arriver     | an|kommen kommt gekommen sein       | 도착하다
leave left     | intransitive | person  | with                | partir      | weg|gehen geht gegangen sein        | 떠나다
get_up got     | intransitive | person  |                     | se_lever    | auf|stehen steht gestanden sein     | 일어나다
wake_up woke   | intransitive | animate |  unwilled | se_réveiller | auf|wachen wacht gewacht sein      | 깨어나다
run ran        | intransitive | animate | somewhere           | courir      | laufen läuft gelaufen sein          | 달리다
travel travelled | intransitive | person | with               | voyager     | reisen reist gereist sein           | 여행하다
come_back came | intransitive | person  |                     | revenir     | zurück|kommen kommt gekommen sein   | 돌아오다
live           | located      | person  | state timeless | habiter     | wohnen wohnt gewohnt                | 살다
stay           | located      | person  | with                | rester      | bleiben bleibt geblieben sein       | 머무르다 르
go went        | goal         | person  | with command        | aller       | gehen geht gegangen sein            | 가다
see saw        | transitive   | animate : person animal scenery vehicle |  | voir | sehen sieht gesehen            | 보다
eat ate        | transitive   | person : food | manner with somewhere | manger | essen isst gegessen                | 먹다
drink drank    | transitive   | person : drink | manner with somewhere | boire | trinken trinkt getrunken           | 마시다
read read      | transitive   | person : text print | manner somewhere | lire | lesen liest gelesen               | 읽다
write wrote    | transitive   | person : text | manner somewhere | écrire    | schreiben schreibt geschrieben      | 쓰다
buy bought     | transitive   | person : food print thing furniture vehicle | command | acheter | kaufen kauft gekauft | 사다
sell sold      | transitive   | person : food thing furniture vehicle | command | vendre | verkaufen verkauft verkauft         | 팔다
find found     | transitive   | person : thing animal | unwilled | trouver   | finden findet gefunden              | 발견하다
look_for       | transitive   | person : thing animal person | command | chercher | suchen sucht gesucht          | 찾다
love           | transitive   | person : person | state timeless | aimer       | lieben liebt geliebt                | 사랑하다
like           | transitive   | person : food drink animal text sound | state definite timeless | aimer | mögen mag gemocht  | 좋아하다
help           | transitive   | person : person | command       | aider       | helfen hilft geholfen               | 돕다 ㅂ
visit          | transitive   | person : sight | with           | visiter     | besuchen besucht besucht            | 방문하다
meet met       | transitive   | person : person | somewhere unwilled | rencontrer  | treffen trifft getroffen            | 만나다
call           | transitive   | person : person | command       | appeler     | an|rufen ruft gerufen               | 전화하다 에게
invite         | transitive   | person : person | command       | inviter     | ein|laden lädt geladen              | 초대하다
open           | transitive   | person : closed | manner command | ouvrir     | auf|machen macht gemacht            | 열다
close          | transitive   | person : closed | manner command | fermer     | zu|machen macht gemacht             | 닫다
clean          | transitive   | person : room building | manner command | nettoyer | putzen putzt geputzt           | 청소하다
prepare        | transitive   | person : dish  | manner command with | préparer | zu|bereiten bereitet bereitet    | 준비하다
carry carried  | transitive   | person : thing furniture | manner command | porter      | tragen trägt getragen               | 옮기다
listen_to      | transitive   | person : sound | manner command with | écouter | hören hört gehört                  | 듣다 ㄷ
learn          | transitive   | person : verse | manner         | apprendre   | lernen lernt gelernt                | 배우다
forget forgot  | transitive   | person : thing | definite unwilled | oublier     | vergessen vergisst vergessen        | 잊어버리다
lose lost      | transitive   | person : thing | definite unwilled | perdre      | verlieren verliert verloren         | 잃어버리다
paint          | transitive   | person : scenery animal | command manner | peindre | malen malt gemalt             | 그리다
repair         | transitive   | person : machine vehicle | command | réparer | reparieren repariert repariert     | 고치다
drive drove    | transitive   | person : vehicle | definite | conduire | fahren fährt gefahren              | 운전하다
wear wore      | transitive   | person : clothing | state timeless | porter      | tragen trägt getragen               | 입다 고_있다
know knew      | transitive   | person : person | state definite timeless | connaître | kennen kennt gekannt                | 알다
have had       | transitive   | person : thing vehicle animal | state timeless | avoir | haben hat gehabt                  | 가지다 고_있다
follow         | transitive   | animate : animal person |  unwilled | suivre      | folgen folgt gefolgt sein           | 따라가다
give gave      | ditransitive | person : thing food | command    | donner      | geben gibt gegeben                  | 주다
show showed    | ditransitive | person : thing furniture vehicle animal | command | montrer | zeigen zeigt gezeigt         | 보여_주다
send sent      | ditransitive | person : thing | command         | envoyer     | schicken schickt geschickt          | 보내다
bring brought  | ditransitive | person : thing food | command    | apporter    | mit|bringen bringt gebracht         | 가져다주다
lend lent      | ditransitive | person : thing vehicle | command | prêter      | leihen leiht geliehen               | 빌려주다
tell told      | ditransitive | person : tale | command           | raconter    | erzählen erzählt erzählt            | 들려주다
think thought  | complement   | person  | state               | penser      | denken denkt gedacht                | 생각하다
say said       | complement   | person  |                     | dire        | sagen sagt gesagt                   | 말하다
believe        | complement   | person  | state               | croire      | glauben glaubt geglaubt             | 믿다
know_that knew | complement   | person  | state timeless | savoir      | wissen weiß gewusst                 | 알다 것
hope           | complement   | person  | state               | espérer     | hoffen hofft gehofft                | 바라다 기
be was         | copula       | animate | state               | être        | sein ist gewesen sein               | 이다
"""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in four languages, with what it goes together with."""

    english: str
    english_past: str
    english_particle: str
    frame: str
    subject: str
    objects: tuple[str, ...]
    flags: frozenset[str]
    french: str
    german: str
    german_prefix: str
    german_present: str
    german_participle: str
    german_auxiliary: str
    korean: str
    korean_class: str


def _past_of(english: str) -> str:
    return english + ("d" if english.endswith("e") else "ed")


def _parse(row: str) -> tuple[str, Verb]:
    english, frame, selection, flags, french, german, korean = _columns(row)
    key, *past = english.split()
    base, _, particle = key.partition("_")
    subject, _, objects = selection.partition(":")
    infinitive, present, participle, *auxiliary = german.split()
    prefix, _, stem = infinitive.rpartition("|")
    korean_stem, *korean_class = korean.split()
    return key, Verb(
        english=base,
        english_past=past[0] if past else _past_of(base),
        english_particle="" if particle == "that" else particle,
        frame=frame,
        subject=subject.strip(),
        objects=tuple(objects.split()),
        flags=frozenset(flags.split()),
        french=french,
        german=stem,
        german_prefix=prefix,
        german_present=present,
        german_participle=prefix + participle,
        german_auxiliary=auxiliary[0] if auxiliary else "haben",
        korean=korean_stem,
        korean_class=korean_class[0] if korean_class else "",
    )


def _columns(row: str) -> list[str]:
    """The row's cells; a bar between letters belongs to a German verb."""
    return [cell.strip() for cell in (row + " ").split("| ")]


VERBS: dict[str, Verb] = dict(map(_parse, _TABLE.strip().splitlines()))


def verbs_in(frame: str) -> tuple[str, ...]:
    """The concepts of one frame."""
    return tuple(key for key, verb in VERBS.items() if verb.frame == frame)
