"""Written English dates in several styles, translated to ISO 8601."""

import datetime
import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.toy.pairs import AlignedPair, check_split, length_bounds

FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2099, 12, 31)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

# Every style is unambiguous: the month is spelled out, or the order is German or ISO-like.
# Words in braces have sure links to the ISO date; weekdays and function words have possible links.
STYLES = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{month} {ordinal}, {year}",
    "the {ordinal} of {month} {year}",
    "the {ordinal} of {month}, {year}",
    "{ordinal} {month} {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "{weekday} the {ordinal} of {month} {year}",
    "{day} {short} {year}",
    "{short} {day}, {year}",
    "{short_weekday} {day} {short} {year}",
    "{short_weekday}, {short} {day}, {year}",
    "{day:02}.{number:02}.{year}",
    "{day}.{number}.{year}",
    "{year}/{number:02}/{day:02}",
    "{year} {month} {day}",
    "in {year}, on the {ordinal} of {month}",
    "on {weekday}, {month} {ordinal}, {year}",
)
_SURE = ("{day", "{ordinal", "{month", "{short}", "{year", "{number")


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th … 31st."""
    ending = "th" if 10 <= day <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def written(date: datetime.date, style: str) -> str:
    """A date in one of the styles."""
    month, weekday = MONTHS[date.month - 1], WEEKDAYS[date.weekday()]
    return style.format(
        day=date.day,
        ordinal=ordinal(date.day),
        month=month,
        short=month[:3],
        number=date.month,
        year=date.year,
        weekday=weekday,
        short_weekday=weekday[:3],
    )


def split_of(date: datetime.date) -> str:
    """The split of a date, independent of its style: splits share no date."""
    bucket = zlib.crc32(date.isoformat().encode()) % 10
    return {0: "valid", 1: "test"}.get(bucket, "train")


@dataclass(frozen=True, slots=True)
class DateCorpus:
    """Dates from 1900 to 2099; the splits are disjoint by date."""

    name: str = "dates"
    pair: str = "en-iso"
    source_language: str = "en"
    target_language: str = "iso"
    splits: tuple[str, ...] = ("train", "valid", "test")

    def generate(
        self,
        split: str,
        count: int,
        seed: int = 0,
        *,
        min_words: int | None = None,
        max_words: int | None = None,
    ) -> Iterator[AlignedPair]:
        """Yield pairs of one to seven source words and one target word."""
        check_split(split, self.splits, self.name)
        low, high = length_bounds(self.name, 1, max(map(_word_count, STYLES)), min_words, max_words)
        styles = [style for style in STYLES if low <= _word_count(style) <= high]
        return self._stream(split, count, seed, styles)

    def find(self, source: str) -> AlignedPair | None:
        """The pair of a date in any of the styles."""
        found = (_pair(date, style, lower) for date in _dates_of(source) for style in STYLES for lower in (False, True))
        return next((pair for pair in found if pair.source == source), None)

    def _stream(self, split: str, count: int, seed: int, styles: list[str]) -> Iterator[AlignedPair]:
        rng = random.Random(f"{self.name}/{split}/{seed}")
        days = (LAST_DAY - FIRST_DAY).days
        for _ in range(count):
            date = LAST_DAY - datetime.timedelta(rng.randint(0, days))
            while split_of(date) != split:
                date = LAST_DAY - datetime.timedelta(rng.randint(0, days))
            yield _pair(date, rng.choice(styles), rng.random() < 0.2)


def _dates_of(source: str) -> Iterator[datetime.date]:
    """All dates of the years that the text names."""
    for year in {int(number) for number in re.findall(r"\d{4}", source)}:
        if FIRST_DAY.year <= year <= LAST_DAY.year:
            first = datetime.date(year, 1, 1)
            days = (datetime.date(year, 12, 31) - first).days + 1
            yield from (first + datetime.timedelta(day) for day in range(days))


def _word_count(style: str) -> int:
    return len(style.split())


def _pair(date: datetime.date, style: str, lower: bool) -> AlignedPair:
    source = written(date, style)
    possible = tuple((index, 0) for index in range(_word_count(style)))
    sure = tuple((index, 0) for index, word in enumerate(style.split()) if word.startswith(_SURE))
    return AlignedPair(source.lower() if lower else source, date.isoformat(), sure, possible, style)
