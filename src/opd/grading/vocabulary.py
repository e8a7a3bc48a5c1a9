r"""The words of the grammar: what each LaTeX command, each character and each unit stands for.

Only tables here. A command that stands in none of them is beyond the grammar, never guessed at.
"""


def row(text: str) -> tuple[str, ...]:
    """Words with blanks between them."""
    return tuple(text.split())


FUNCTIONS = frozenset(
    row(
        """frac sqrt binom sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh cis ln log lg exp gcd
        lcm max min floor ceil abs norm conj factorial mod"""
    )
)

# Take a power before their operand: sin² x.
NAMED_FUNCTIONS = frozenset(row("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg"))

FUNCTION_COMMANDS = {name: name for name in FUNCTIONS - {"floor", "ceil", "abs", "norm", "conj", "factorial"}} | {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "nicefrac": "frac",
    "sfrac": "frac",
    "dbinom": "binom",
    "tbinom": "binom",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "bmod": "mod",
}

# Written out without a backslash, as in sqrt(5) or pi/2.
PLAIN_FUNCTIONS = frozenset(
    row("sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp gcd lcm")
)
WRITTEN_FUNCTIONS = frozenset({"cis", "gcd", "lcm"})  # in text as well, where log and min are words
PLAIN_NAMES = frozenset({"pi", "theta", "alpha", "beta"})

NAMES = frozenset(
    row(
        """alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho
        sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi
        Omega infty emptyset ell hbar angle triangle ldots dots cdots prime varnothing"""
    )
)
NAME_ALIASES = {"varnothing": "emptyset", "dots": "ldots", "cdots": "ldots"}

MARKS = {
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "div": "/",
    "pm": "+-",
    "mp": "-+",
    "le": "<=",
    "leq": "<=",
    "leqslant": "<=",
    "ge": ">=",
    "geq": ">=",
    "geqslant": ">=",
    "lt": "<",
    "gt": ">",
    "ne": "!=",
    "neq": "!=",
    "approx": "~=",
    "simeq": "~=",
    "in": "in",
    "cup": "cup",
    "bigcup": "cup",
    "cap": "cap",
    "bigcap": "cap",
    "setminus": "setminus",
    "backslash": "setminus",
    "mid": "|",
    "vert": "|",
    "lvert": "|",
    "rvert": "|",
    "lVert": "||",
    "rVert": "||",
    "Vert": "||",
    "|": "||",
    "lfloor": "lfloor",
    "rfloor": "rfloor",
    "lceil": "lceil",
    "rceil": "rceil",
    "langle": "langle",
    "rangle": "rangle",
    "lbrace": "\\{",
    "rbrace": "\\}",
    "{": "\\{",
    "}": "\\}",
    "lbrack": "[",
    "rbrack": "]",
    "colon": ":",
    "land": "and",
    "wedge": "and",
    "lor": "or",
    "vee": "or",
    "over": "over",
    "choose": "choose",
    "\\": "\\\\",
    "cr": "\\\\",
    "&": "and",
}

# What changes only how an answer looks.
LAYOUT = frozenset(
    row(
        """left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm displaystyle
        textstyle scriptstyle limits nolimits quad qquad enspace thinspace negthinspace medspace thickspace
        hfill hline mathstrut strut nonumber notag boxed fbox boldsymbol bm mathbf mathit mathcal mathsf
        mathtt mathfrak tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge vec hat bar
        overline overrightarrow widehat tilde underline ensuremath bf it mathord"""
    )
) | frozenset(",;:! \n\t/")

TEXT = frozenset(row("text textbf textit textrm textsf texttt textup textnormal textsc mbox hbox emph"))
ROMAN = frozenset({"mathrm", "operatorname", "rm"})

AND = frozenset({"and", "和", "与", "及", "以及", "且", "并且"})
OR = frozenset({"or", "或", "或者"})
INTRODUCTIONS = frozenset(  # before a colon
    row(
        """answer answers area circumference distance domain height length perimeter probability radius range ratio
        result slope solution solutions speed sum total value volume width"""
    )
)
ARTICLES = frozenset({"a", "an", "the"})
ORDINALS = frozenset({"st", "nd", "rd", "th"})

# One character, as the LaTeX that it stands for; blanks keep commands apart.
CHARACTERS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "‐": "-",
        "‑": "-",
        "‒": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "∙": r"\cdot ",
        "÷": "/",
        "⁄": "/",
        "∕": "/",
        "±": r"\pm ",
        "∓": r"\mp ",
        "≤": r"\le ",
        "⩽": r"\le ",
        "≦": r"\le ",
        "≥": r"\ge ",
        "⩾": r"\ge ",
        "≧": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "∈": r"\in ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∖": r"\setminus ",
        "∅": r"\emptyset ",
        "∞": r"\infty ",
        "√": r"\sqrt ",
        "∛": r"\sqrt[3] ",
        "∜": r"\sqrt[4] ",
        "°": r"\degree ",
        "˚": r"\degree ",
        "º": r"\degree ",
        "℃": r"\degree C",
        "℉": r"\degree F",
        "…": r"\ldots ",
        "⋯": r"\ldots ",
        "⌊": r"\lfloor ",
        "⌋": r"\rfloor ",
        "⌈": r"\lceil ",
        "⌉": r"\rceil ",
        "⟨": r"\langle ",
        "⟩": r"\rangle ",
        "∠": r"\angle ",
        "△": r"\triangle ",
        "∣": "|",
        "∶": ":",
        "ℝ": r"\mathbb{R}",
        "ℤ": r"\mathbb{Z}",
        "ℚ": r"\mathbb{Q}",
        "ℕ": r"\mathbb{N}",
        "ℂ": r"\mathbb{C}",
        "′": "'",
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "、": ",",
        "。": ".",
        "￥": "¥",
        "π": r"\pi ",
        "α": r"\alpha ",
        "β": r"\beta ",
        "γ": r"\gamma ",
        "δ": r"\delta ",
        "ε": r"\epsilon ",
        "θ": r"\theta ",
        "λ": r"\lambda ",
        "μ": r"\mu ",
        "ρ": r"\rho ",
        "σ": r"\sigma ",
        "τ": r"\tau ",
        "φ": r"\phi ",
        "ϕ": r"\phi ",
        "ω": r"\omega ",
        "Δ": r"\Delta ",
        "Σ": r"\Sigma ",
        "Ω": r"\Omega ",
    }
)
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))

CURRENCY = {"$": "dollar", "€": "euro", "£": "pound_sterling", "¥": "yuan", "¢": "cent"}

# A unit, or a word that is common after a number, with its other spellings; singular.
_UNITS = {
    "mm": "millimeter millimetre 毫米",
    "cm": "centimeter centimetre 厘米",
    "m": "meter metre 米",
    "km": "kilometer kilometre 千米 公里",
    "inch": "in",
    "foot": "ft feet",
    "yard": "yd",
    "mile": "mi",
    "mg": "milligram 毫克",
    "g": "gram gm gramme 克",
    "kg": "kilogram 千克 公斤",
    "lb": "pound lbs",
    "oz": "ounce",
    "ton": "tonne 吨",
    "ml": "milliliter millilitre 毫升",
    "l": "liter litre 升",
    "gallon": "gal",
    "second": "s sec 秒",
    "minute": "min 分钟",
    "hour": "h hr 小时",
    "day": "天",
    "week": "周",
    "month": "月",
    "year": "yr 年",
    "degree": "deg 度",
    "radian": "rad 弧度",
    "dollar": "usd",
    "cent": "",
    "euro": "eur",
    "yuan": "rmb cny 元",
    "percent": "",
    "mph": "",
    "kph": "kmh",
    "am": "",
    "pm": "",
    "newton": "",
    "joule": "",
    "watt": "",
    "volt": "",
    "man": "men",
    "person": "people 人",
    "child": "children",
    "box": "",
}
UNIT_ALIASES = {alias: unit for unit, aliases in _UNITS.items() for alias in (unit, *row(aliases))}

COMPOUND_UNITS = {"mph": (("mile", 1), ("hour", -1)), "kph": (("km", 1), ("hour", -1))}

# Of these the words may be left out or qualified: 7 integers, 7 distinct integers; all others must agree.
COUNTED = frozenset({"man", "person", "child", "box"})

# Stand for nothing in particular: "square units", "12 个".
PLACEHOLDERS = frozenset(row("unit 单位 个 只 条 件 本 张 次 种 名 位 块 岁 棵 辆"))
POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "平方": 2, "cubic": 3, "cu": 3, "cubed": 3, "立方": 3}

# Bare letters that are a unit or a counting word when they follow a number, too short to be told by their vowels.
SHORT_WORDS = frozenset(
    row(
        """mm cm km in ft yd mi mg gm kg lb lbs oz ml sec min hr hrs yr yrs day deg rad mph am pm sq cu men man
        box cup egg dog cat pie car way bag pen cow hen pig bus boy row set pts"""
    )
)

_SMALL = row("""zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen""")
_TENS = row("twenty thirty forty fifty sixty seventy eighty ninety")
NUMBER_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * value for value, word in enumerate(_TENS, start=2)
}
SCALE_WORDS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
CHINESE_DIGITS = "零一二三四五六七八九"
CHINESE_PLACES = {"十": 10, "百": 100, "千": 1000}
CHINESE_NUMERALS = frozenset(CHINESE_DIGITS) | CHINESE_PLACES.keys()
