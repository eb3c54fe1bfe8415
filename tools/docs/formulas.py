"""Formulas of docstrings as mathematics.

Docstrings write formulas in plain text, so that a terminal and an editor can show them: ``y = W2 f(W1 x + b1) + b2``. Here such a
line becomes LaTeX, and LaTeX becomes MathML, which browsers draw without a script. The notation:

- ``x_t-1`` is a subscript and ``x^2`` a superscript, up to the next space or closing bracket; so is ``x_(c > k)``;
- ``sqrt(x)`` is a root, ``a / b`` a fraction where both sides are single terms, ``sum_t`` and ``prod_t`` large operators;
- a letter is a variable, a Greek name a Greek letter, any other word stands upright.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from latex2mathml.converter import convert

GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "lambda", "mu", "nu", "pi", "rho", "sigma", "tau",
    "phi", "chi", "psi", "omega", "Phi", "Sigma", "Omega", "Gamma", "Delta", "Theta",
}  # fmt: skip
LARGE = {"sum": r"\sum", "prod": r"\prod"}
NAMED = {"max", "min", "exp", "log", "sin", "cos", "tanh", "arg", "det", "dim", "gcd", "lim", "sup", "inf"}
SYMBOLS = {
    "<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "<-": r"\leftarrow ", "->": r"\to ", "+=": r"\mathrel{+}=", "~": r"\sim ",
    "*": r"\odot ", ".": r"\cdot ", "...": r"\dots ", "..": r"\dots ", "|": r"\mid ", "||": r"\parallel ", "<": "<", ">": ">",
}  # fmt: skip
TOKEN = re.compile(
    r"\s+|\.{2,3}|<=|>=|!=|<-|->|\+=|\|\||\d+(?:[.,]\d+)*(?:e-?\d+)?"
    r"|(?!(?:sum|max|min|argmax|softmax)_)[a-z]{2,}(?:_[a-z]+)*_(?:[a-z]{3,}|f1)\b|[A-Za-z]\d+|[A-Za-z]+~?'*|.",
    re.DOTALL,
)
SCRIPT = re.compile(r"[^\s,;()\[\]{}|^/]+")
SPLIT = re.compile(
    r"(?<=[,;])\s{2,}|(?<=;)\s|\n|\s(?=(?:with|where|over|for)\s)"
    r"|(?<=,)\s(?=(?:with|where|which|over|and|or|then|the|not|no|for|else)\b)"
)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, set(")]}")
FUNCTION_WORDS = (
    "the an of is are was were and or that which in to by as from where with over has have be its it then else if all each "
    "not no for when than so do does may must can this these those one"
)
PROSE = re.compile(rf"\b(?:{FUNCTION_WORDS.replace(' ', '|')})\b(?![_^'(])|\b[A-Za-z]{{3,}} [a-z]{{3,}} [a-z]{{3,}}\b(?![_^'(])")
SENTENCE = re.compile(r"(?<=[\w)])\.\s|[\"`]|\b\w+-[a-z]{3,}")
LEADING = re.compile(r"(?:with|where|and|or|then|for|over)\b,?\s+")
RELATION = re.compile(r"(?<![<>!=])=(?!=)|\s~\s|<-|->|\+=")


@dataclass(frozen=True)
class Piece:
    """A stretch of a docstring's paragraph: a formula or prose."""

    text: str
    formula: bool


def pieces(paragraph: str, first: bool = False) -> list[Piece]:
    """Split a paragraph into formulas and the prose between them.

    A paragraph with formulas begins with one. They are separated from each other by a comma or semicolon with two spaces, from
    prose also by a semicolon or by a word such as "with".

    Args:
        paragraph: The text of one paragraph.
        first: Whether it follows the summary; there a formula need not be an equation (``max(x, 0)``).
    """
    if "http" in paragraph or not (RELATION.search(paragraph) or first):
        return [Piece(paragraph, False)]
    found = [Piece(part, is_formula(part, first and number == 0)) for number, part in enumerate(_split(paragraph))]
    if not found or not found[0].formula:
        return [Piece(paragraph, False)]
    joined: list[Piece] = []
    for piece in found:
        if joined and not piece.formula and not joined[-1].formula:
            joined[-1] = Piece(f"{joined[-1].text} {piece.text}", False)
        else:
            joined.append(piece)
    return joined


def _split(paragraph: str) -> list[str]:
    """A paragraph cut where formulas and prose may meet, outside of brackets."""
    depths, depth = [], 0
    for character in paragraph:
        depth += (character in OPENING) - (character in CLOSING)
        depths.append(depth)
    cuts = [match for match in SPLIT.finditer(paragraph) if depths[match.start()] == 0]
    ends = [*(match.start() for match in cuts), len(paragraph)]
    starts = [0, *(match.end() for match in cuts)]
    texts = [text for start, end in zip(starts, ends, strict=True) if (text := " ".join(paragraph[start:end].split()))]
    return [part for text in texts for part in _lead(text)]


def _lead(text: str) -> list[str]:
    """Cut a word such as "with" off the formula that follows it."""
    word = LEADING.match(text)
    return [text[: word.end()].strip(), text[word.end() :]] if word and is_formula(text[word.end() :]) else [text]


def is_formula(text: str, bare: bool = False) -> bool:
    """Whether a stretch of text is a formula: it has a relation (or ``bare`` allows it to have none) and few words."""
    if not RELATION.search(text) and not (bare and re.fullmatch(r"\w|[^.:]*[(^_+*][^.:]*", text)):
        return False
    return PROSE.search(text) is None and not SENTENCE.search(text)


@functools.cache
def mathml(formula: str, block: bool = True) -> str:
    """MathML of a plain-text formula, with the formula itself as its label."""
    return latex_to_mathml(to_latex(formula), block)


def latex_to_mathml(latex: str, block: bool = False) -> str:
    """MathML of LaTeX, on one line, so that Markdown leaves it alone."""
    return " ".join(convert(latex, display="block" if block else "inline").split())


def to_latex(formula: str) -> str:
    """LaTeX of a plain-text formula.

    >>> to_latex("y = x / sqrt(mean(x^2) + eps)")
    'y = \\\\frac{x}{\\\\sqrt{\\\\mathrm{mean}(x^{2}) + \\\\epsilon}}'
    """
    text = formula.strip().rstrip(",;")
    return "".join(_fractions(_atoms(re.sub(r"(?<!\.)\.$", "", text)))).strip()


@dataclass(frozen=True)
class _Atom:
    """A term (operand), an operator or a space."""

    latex: str
    kind: str  # "term", "operator", "space", "large"

    def __str__(self) -> str:
        return self.latex


def _atoms(text: str) -> list[_Atom]:
    atoms: list[_Atom] = []
    at = 0
    while at < len(text):
        token = TOKEN.match(text, at)
        assert token is not None
        word = token[0]
        at = token.end()
        if word.isspace():
            atoms.append(_Atom(" ", "space"))
        elif word in OPENING:
            inner, at = _inside(text, at, word)
            _bracket(atoms, word, inner)
        elif word in "_^" and atoms:
            script, at = _script(text, at)
            last = atoms.pop()
            below = re.sub(r"\\mathrm\{([a-z]{2})\}", r"\1", to_latex(script))  # two letters are two indices
            atoms.append(_Atom(f"{last.latex}{word}{{{below}}}", last.kind))
        elif word == "|" and (bars := re.match(r"([^|\s][^|]*)\|", text[at:])) and not _is_condition(text, at):
            atoms.append(_Atom(rf"\lvert {to_latex(bars[1])}\rvert ", "term"))
            at += bars.end()
        else:
            atoms.append(_word(word, text, at))
    return atoms


def _is_condition(text: str, at: int) -> bool:
    """Whether the bar before ``at`` is that of ``p(y | x)`` or ``p(y|x)``: no space stands only before it."""
    before = text[: at - 1]
    return bool(before) and (before[-1].isalnum() or before[-1] in "')]}")


def _inside(text: str, at: int, opening: str) -> tuple[str, int]:
    """What stands between an opening bracket and its closing one, and where to read on."""
    depth, start = 1, at
    while at < len(text):
        depth += (text[at] == opening) - (text[at] == OPENING[opening])
        at += 1
        if depth == 0:
            return text[start : at - 1], at
    return text[start:], at


def _bracket(atoms: list[_Atom], opening: str, inner: str) -> None:
    """Append a bracketed group; after a word without a space it is the argument of a function."""
    latex, closing = to_latex(inner), OPENING[opening]
    if atoms and atoms[-1].latex == r"\mathrm{sqrt}":
        atoms[-1] = _Atom(rf"\sqrt{{{latex}}}", "term")
        return
    marks = {"{": (r"\{", r"\}")}.get(opening, (opening, closing))
    group = f"{marks[0]}{latex}{marks[1]}"
    if atoms and atoms[-1].kind == "term":
        atoms[-1] = _Atom(atoms[-1].latex + group, "term")
    else:
        atoms.append(_Atom(group, "group" if opening == "(" else "term"))


def _script(text: str, at: int) -> tuple[str, int]:
    """A subscript or superscript, and where to read on."""
    if at < len(text) and text[at] in "({":
        return _inside(text, at + 1, text[at])
    found = SCRIPT.match(text, at)
    if found is None:
        return "", at
    script = found[0]
    script = script[:-3] if script.endswith("...") else script.rstrip(".:+-") or script
    return script, at + len(script)


def _word(word: str, text: str, at: int) -> _Atom:
    if word in LARGE:
        return _Atom(LARGE[word], "large")
    if word in SYMBOLS:
        return _Atom(f" {SYMBOLS[word]}", "operator")
    if word[0].isdigit():
        return _Atom(word.replace(",", "{,}"), "term")
    if word[0].isalpha():
        primes = len(word) - len(word.rstrip("'"))
        stem = word.rstrip("'")
        tilde = stem.endswith("~")
        latex = _name(stem.rstrip("~"))
        return _Atom((rf"\tilde{{{latex}}}" if tilde else latex) + "'" * primes, "term")
    if word in "+-=":
        return _Atom(word, "operator")
    if word in "%#&$":
        return _Atom("\\" + word, "term")
    return _Atom(word, "operator" if word in "/,;:" else "term")


def _name(name: str) -> str:
    if len(name) == 1:
        return name
    if name[0].isalpha() and name[1:].isdigit():
        return f"{name[0]}_{{{name[1:]}}}"
    if re.fullmatch("W[a-z]", name):
        return f"W^{{{name[1]}}}"
    if "_" in name:
        return r"\mathrm{" + name.replace("_", r"\_") + "}"
    if name == "eps":
        return r"\epsilon"
    if name in GREEK:
        return f"\\{name} "
    return f"\\{name} " if name in NAMED else rf"\mathrm{{{name}}}"


def _fractions(atoms: list[_Atom]) -> list[str]:
    """Set ``a / b`` as a fraction where a and b are single terms between operators; keep the spaces that words need."""
    solid = [atom for atom in atoms if atom.kind != "space"]
    spaced = _spaces(atoms)
    out: list[str] = []
    at = 0
    while at < len(solid):
        if _is_fraction(solid, spaced, at):
            above, below = _bare(solid[at]), _bare(solid[at + 2])
            out.append(rf"\frac{{{above}}}{{{below}}}")
            at += 3
        else:
            out.append(solid[at].latex)
            at += 1
        if at < len(solid) and at in spaced:
            wide = "mathrm" in solid[at].latex or "mathrm" in solid[at - 1].latex or solid[at - 1].latex in ",;"
            plain = solid[at].kind == "operator" or (solid[at - 1].kind == "operator" and solid[at - 1].latex not in ",;")
            out.append(" " if plain else r"\ " if wide else r"\,")
    return out


def _spaces(atoms: list[_Atom]) -> set[int]:
    """The numbers of the solid atoms before which a space stands."""
    found, number = set(), 0
    for atom in atoms:
        if atom.kind == "space":
            found.add(number)
        else:
            number += 1
    return found


def _is_fraction(solid: list[_Atom], spaced: set[int], at: int) -> bool:
    if at + 2 >= len(solid) or solid[at + 1].latex != "/" or (at + 1) not in spaced:
        return False
    operands = all(solid[i].kind in ("term", "group") for i in (at, at + 2))
    before = at == 0 or (solid[at - 1].kind == "operator" and solid[at - 1].latex != "/")
    after = at + 3 >= len(solid) or (solid[at + 3].kind == "operator" and solid[at + 3].latex != "/")
    return operands and before and after


def _bare(atom: _Atom) -> str:
    """A fraction needs no brackets around its sides."""
    return atom.latex[1:-1] if atom.kind == "group" else atom.latex
