"""Write docs/settings.md from the settings themselves: python docs/settings.py. A test holds the two together."""

from itertools import groupby
from pathlib import Path

from regard.config.reference import Setting, all_settings

PAGE = Path(__file__).with_name("settings.md")
TABLES = {
    "model": "The architecture. Settings that only some models have name them.",
    "text": "Subwords (BPE by default), and which pairs are left out.",
    "images": "How images are read.",
    "training": "Optimisation, batches, validation, checkpoints.",
    "search": "Decoding. `regard translate` and `Translator.translate` can change all of it afterwards.",
}


def page() -> str:
    """The whole page."""
    parts = [
        "# Settings\n\nEvery setting of a recipe, its default, and the recipes that change it (written by "
        "`python docs/settings.py`; `regard settings PATTERN` prints the same). Put a setting into a recipe's table, "
        "or change it for one run: `regard train bahdanau --set training.learning_rate=3e-4`.\n"
    ]
    for table, settings in groupby(all_settings(), lambda setting: setting.name.split(".")[0]):
        rows = "\n".join(row(setting) for setting in settings)
        parts.append(
            f"## [{table}]\n\n{TABLES[table]}\n\n| setting | default | type | meaning | recipes |\n"
            f"|---|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


def row(setting: Setting) -> str:
    """A line of a table."""
    only = f" ({', '.join(setting.applies_to)})" if setting.applies_to else ""
    recipes = ", ".join(f"{name} `{value}`" for name, value in setting.recipes.items())
    cells = f"`{setting.name}`", f"`{setting.default}`", setting.type, setting.meaning + only, recipes
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
