# ruff: noqa: E501 (a table row stays on one line, and Korean letters count twice)
"""The nouns: one row for each concept, with its word in every language."""

from dataclasses import dataclass

# english (plural, if irregular) | tags | french gender (plural) | german gender plural | korean counter
# Tags choose what makes sense together; "own" marks people and places that somebody may call theirs, "kin" nouns
# that always belong to somebody, "mass" nouns without "a" and plural,
# "single" nouns without plural. A German noun marked "weak" takes its plural
# form in every case but the nominative.
_TABLE = """
man men        | person adult                         | homme m            | Mann m Männer             | 남자 명
woman women    | person adult                         | femme f            | Frau f Frauen             | 여자 명
boy            | person                               | garçon m           | Junge m Jungen weak       | 소년 명
girl           | person                               | fille f            | Mädchen n Mädchen         | 소녀 명
child children | person                               | enfant m           | Kind n Kinder             | 아이 명
friend         | person adult kin                     | ami m              | Freund m Freunde          | 친구 명
neighbour      | person adult own                     | voisin m           | Nachbar m Nachbarn weak   | 이웃 명
teacher        | person adult job                 | professeur m       | Lehrer m Lehrer           | 교사 명
doctor         | person adult own job                 | médecin m          | Arzt m Ärzte              | 의사 명
student        | person adult job                     | étudiant m         | Student m Studenten weak  | 학생 명
farmer         | person adult job                     | agriculteur m      | Bauer m Bauern weak       | 농부 명
baker          | person adult job                     | boulanger m        | Bäcker m Bäcker           | 제빵사 명
singer         | person adult job                     | chanteur m         | Sänger m Sänger           | 가수 명
painter        | person adult job                     | peintre m          | Maler m Maler             | 화가 명
writer         | person adult job                     | écrivain m         | Schriftsteller m Schriftsteller | 작가 명
lawyer         | person adult own job                 | avocat m           | Anwalt m Anwälte          | 변호사 명
nurse          | person adult                         | infirmière f       | Krankenschwester f Krankenschwestern | 간호사 명
soldier        | person adult job                     | soldat m           | Soldat m Soldaten weak    | 군인 명
tourist        | person adult                         | touriste m         | Tourist m Touristen weak  | 관광객 명
guest          | person adult own                     | invité m           | Gast m Gäste              | 손님 명
driver         | person adult                         | chauffeur m        | Fahrer m Fahrer           | 운전사 명
son            | person kin                           | fils m fils        | Sohn m Söhne              | 아들 명
daughter       | person kin                           | fille f            | Tochter f Töchter         | 딸 명
cat            | animal                               | chat m             | Katze f Katzen            | 고양이 마리
dog            | animal                               | chien m            | Hund m Hunde              | 개 마리
horse          | animal                               | cheval m chevaux   | Pferd n Pferde            | 말 마리
bird           | animal                               | oiseau m oiseaux   | Vogel m Vögel             | 새 마리
cow            | animal                               | vache f            | Kuh f Kühe                | 소 마리
rabbit         | animal                               | lapin m            | Kaninchen n Kaninchen     | 토끼 마리
mouse mice     | animal                               | souris f souris    | Maus f Mäuse              | 쥐 마리
fox            | animal                               | renard m           | Fuchs m Füchse            | 여우 마리
bear           | animal                               | ours m ours        | Bär m Bären weak          | 곰 마리
apple          | food                                 | pomme f            | Apfel m Äpfel             | 사과 개
cake           | food dish                            | gâteau m gâteaux   | Kuchen m Kuchen           | 케이크 개
orange         | food                                 | orange f           | Orange f Orangen          | 오렌지 개
egg            | food dish                            | œuf m              | Ei n Eier                 | 달걀 개
soup           | food dish                            | soupe f            | Suppe f Suppen            | 수프 그릇
sandwich       | food                                 | sandwich m         | Sandwich n Sandwiches     | 샌드위치 개
pear           | food                                 | poire f            | Birne f Birnen            | 배 개
tomato tomatoes| food                                 | tomate f           | Tomate f Tomaten          | 토마토 개
banana         | food                                 | banane f           | Banane f Bananen          | 바나나 개
coffee         | drink single                         | café m             | Kaffee m Kaffees          | 커피 잔
tea            | drink single                         | thé m              | Tee m Tees                | 차 잔
juice          | drink single                         | jus m jus          | Saft m Säfte              | 주스 잔
beer           | drink single                         | bière f            | Bier n Biere              | 맥주 잔
milk           | drink mass                           | lait m             | Milch f Milch             | 우유 잔
water          | drink mass                           | eau f              | Wasser n Wasser           | 물 잔
book           | text thing                           | livre m            | Buch n Bücher             | 책 권
letter         | text thing                           | lettre f           | Brief m Briefe            | 편지 통
newspaper      | print thing                          | journal m journaux | Zeitung f Zeitungen       | 신문 부
magazine       | print thing                          | magazine m         | Zeitschrift f Zeitschriften | 잡지 권
poem           | text verse                           | poème m            | Gedicht n Gedichte        | 시 편
story          | text tale                            | histoire f         | Geschichte f Geschichten  | 이야기 편
song           | sound verse                          | chanson f          | Lied n Lieder             | 노래 곡
key            | thing                                | clé f              | Schlüssel m Schlüssel     | 열쇠 개
phone          | thing machine                        | téléphone m        | Telefon n Telefone        | 전화기 대
computer       | thing machine                        | ordinateur m       | Computer m Computer       | 컴퓨터 대
umbrella       | thing                                | parapluie m        | Regenschirm m Regenschirme | 우산 개
watch          | thing machine                        | montre f           | Uhr f Uhren               | 시계 개
bag            | thing                                | sac m              | Tasche f Taschen          | 가방 개
flower         | thing scenery                        | fleur f            | Blume f Blumen            | 꽃 송이
box            | thing closed                         | boîte f            | Kiste f Kisten            | 상자 개
gift           | thing                                | cadeau m cadeaux   | Geschenk n Geschenke      | 선물 개
photo          | thing                                | photo f            | Foto n Fotos              | 사진 장
table          | furniture                      | table f            | Tisch m Tische            | 탁자 개
chair          | furniture                      | chaise f           | Stuhl m Stühle            | 의자 개
ladder         | thing                                | échelle f          | Leiter f Leitern          | 사다리 개
lamp           | thing machine                        | lampe f            | Lampe f Lampen            | 램프 개
guitar         | thing                                | guitare f          | Gitarre f Gitarren        | 기타 대
map            | thing                                | carte f            | Karte f Karten            | 지도 장
coat           | thing clothing                       | manteau m manteaux | Mantel m Mäntel           | 외투 벌
shirt          | thing clothing                       | chemise f          | Hemd n Hemden             | 셔츠 벌
dress          | thing clothing                       | robe f             | Kleid n Kleider           | 원피스 벌
jacket         | thing clothing                       | veste f            | Jacke f Jacken            | 재킷 벌
car            | vehicle                              | voiture f          | Auto n Autos              | 자동차 대
bus            | vehicle                              | bus m bus          | Bus m Busse               | 버스 대
truck          | vehicle                              | camion m           | Lastwagen m Lastwagen     | 트럭 대
bicycle        | machine                              | vélo m             | Fahrrad n Fahrräder       | 자전거 대
door           | closed part                          | porte f            | Tür f Türen               | 문 개
window         | closed part                          | fenêtre f          | Fenster n Fenster         | 창문 개
tree           | scenery                              | arbre m            | Baum m Bäume              | 나무 그루
house          | place own scenery building home town | maison f           | Haus n Häuser             | 집 채
garden         | place own outdoor                    | jardin m           | Garten m Gärten           | 정원 곳
school         | place own building sight town | école f            | Schule f Schulen          | 학교 곳
park           | place sight outdoor                  | parc m             | Park m Parks              | 공원 곳
market         | place sight outdoor town | marché m           | Markt m Märkte            | 시장 곳
station        | place town | gare f             | Bahnhof m Bahnhöfe        | 역 곳
village        | place own sight home outdoor town | village m          | Dorf n Dörfer             | 마을 곳
city           | place own sight home town | ville f            | Stadt f Städte            | 도시 곳
museum         | place sight town | musée m            | Museum n Museen           | 박물관 곳
kitchen        | place own room                       | cuisine f          | Küche f Küchen            | 부엌 곳
restaurant     | place town | restaurant m       | Restaurant n Restaurants  | 식당 곳
library        | place sight town | bibliothèque f     | Bibliothek f Bibliotheken | 도서관 곳
hospital       | place sight town | hôpital m hôpitaux | Krankenhaus n Krankenhäuser | 병원 곳
forest         | place scenery home outdoor           | forêt f            | Wald m Wälder             | 숲 곳
church         | place scenery building sight town | église f           | Kirche f Kirchen          | 교회 곳
office         | place own room                       | bureau m bureaux   | Büro n Büros              | 사무실 곳
room           | place own room                       | chambre f          | Zimmer n Zimmer           | 방 개
hotel          | place building home town | hôtel m            | Hotel n Hotels            | 호텔 곳
castle         | place scenery building sight home town | château m châteaux | Schloss n Schlösser       | 성 곳
island         | place sight scenery home outdoor     | île f              | Insel f Inseln            | 섬 곳
beach          | place outdoor                        | plage f            | Strand m Strände          | 해변 곳
"""


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in four languages."""

    english: str
    english_plural: str
    tags: frozenset[str]
    french: str
    french_plural: str
    french_gender: str
    german: str
    german_plural: str
    german_gender: str
    german_weak: bool
    korean: str
    korean_counter: str


def _plural_of(english: str) -> str:
    if english.endswith(("s", "x", "ch", "sh")):
        return english + "es"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + "s"


def _parse(row: str) -> Noun:
    english, tags, french, german, korean = (column.split() for column in row.split("|"))
    return Noun(
        english=english[0],
        english_plural=english[1] if len(english) > 1 else _plural_of(english[0]),
        tags=frozenset(tags) | ({"animate"} if {"person", "animal"} & set(tags) else set()),
        french=french[0],
        french_plural=french[2] if len(french) > 2 else french[0] + "s",
        french_gender=french[1],
        german=german[0],
        german_plural=german[2],
        german_gender=german[1],
        german_weak=german[-1] == "weak",
        korean=korean[0],
        korean_counter=korean[1],
    )


NOUNS: dict[str, Noun] = {noun.english: noun for noun in map(_parse, _TABLE.strip().splitlines())}


def nouns_tagged(*tags: str) -> tuple[str, ...]:
    """The concepts that carry any of the tags."""
    return tuple(key for key, noun in NOUNS.items() if noun.tags & set(tags))
