"""draw.py - draws faults of one line by lot, by a rule that looks at the text of the code and at nothing else.

The rule:
  1. A line is drawn from all lines of src/ in which a statement, a condition or a row of a table stands, each with the
     same chance, so that a room has faults by its lines. Comments, declarations without a value, includes, macros and
     braces are no such lines. Rooms that need a GPU (NEED_A_GPU) are left out: most machines cannot run them.
  2. KINDS says what a tired author could write instead. A kind is drawn from those that change something in the line, each
     with the same chance, and then one of the places in the line where it does.
  3. It is left out if the line has been drawn before, if the list has that change, if it is no C (other errors than warnings, and
     pointers of other types: the compiler notices), or if the object that is made of it is byte for byte that of the unchanged
     file (it changes nothing).

Whether the rest changes what a program does is for the judge to say: the tests (mutants.py), and a reader.
"""
import re

NEED_A_GPU = ("src/run/kernels/cuda/", "src/run/device/cuda/", "src/run/transport/nccl/")
OPPOSITES = {
    "other operator": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "<<": ">>", ">>": "<<",
                       "&": "|", "|": "&", "|=": "=", "&=": "=", "*=": "=", "/=": "*="},
    "bound off by one": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "other way round": {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "!=", "!=": "=="},
    "and for or": {"&&": "||", "||": "&&"},
}
TWINS = {}
for one, two in (("min", "max"), ("floor", "ceil"), ("first", "last"), ("true", "false"), ("continue", "break"), ("fwd", "bwd"),
                 ("forward", "backward"), ("begin", "end"), ("read", "write"), ("row", "column"), ("src", "dst"), ("up", "down")):
    TWINS[one], TWINS[two] = two, one
ENDS_OF_A_TERM = {  # what a dropped part goes up to, by the operator before it
    "+": ("+", "-", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ":", "&", "|", "<<", ">>"),
    "*": ("+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ":", "&", "|", "<<", ">>"),
    "&&": ("&&", "||", "?", ":"),
    "||": ("||", "?", ":"),
    "|": ("|", "&&", "||", "?", ":"),
}
for same, like in (("-", "+"), ("/", "*"), ("%", "*")):
    ENDS_OF_A_TERM[same] = ENDS_OF_A_TERM[like]
OPERATOR = re.compile(r"(?<= )(<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|\|=|&=|[-+*/%<>&|])(?= |$)")


def masked(text):
    """The text with what is inside comments, strings and characters as spaces and tildes, as long as it was."""

    def hide(found):
        word = found.group(0)
        if word[0] == "/":
            return re.sub(r"[^\n]", " ", word)
        return word[0] + "~" * (len(word) - 2) + word[-1]

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', hide, text, flags=re.S)


def lines_of_code(text):
    """(number, line, masked line) of each line in which a fault can be put."""
    hidden = masked(text).split("\n")
    inside, macro = 0, False
    for number, (line, mask) in enumerate(zip(text.split("\n"), hidden)):
        before, inside = inside, inside + mask.count("{") - mask.count("}")
        was_macro, macro = macro, (macro or mask.startswith("#")) and mask.endswith("\\")
        word = mask.strip()
        if was_macro or word.startswith("#") or not re.search(r"\w", word) or before == 0 and "{" not in word:
            continue
        if before == 0 and not re.search(r"= *\{", word):
            continue
        if re.fullmatch(r"(?:const |static |struct |enum |unsigned |union )*\w+ \**\w+(?:\[[^\]]*\])?"
                        r"(?:, \**\w+(?:\[[^\]]*\])?)*;", word) and not word.startswith(("return", "goto")):
            continue  # a declaration without a value, or a member
        yield number, line, mask


# ---- the kinds: each gives (begin, end, what stands there instead) ----


def opposite(table):
    def kind(line, mask, _):
        for found in OPERATOR.finditer(mask):
            if found.group(0) in table:
                yield *found.span(), table[found.group(0)]

    return kind


def matching(mask, at):
    """Where the bracket that opens at `at` closes, or -1."""
    depth = 0
    for i in range(at, len(mask)):
        depth += (mask[i] in "([{") - (mask[i] in ")]}")
        if depth == 0:
            return i
    return -1


def end_of_part(mask, at, ends):
    """Where the part that begins at `at` ends, or -1 where that is not on this line."""
    depth = 0
    operators = {found.start(): found.group(0) for found in OPERATOR.finditer(mask)}
    for i in range(at, len(mask)):
        if depth == 0 and (mask[i] in ",;)]}" or operators.get(i) in ends or mask[i] in "?:" and mask[i - 1] == " "):
            return i - (mask[i - 1] == " ")
        depth += (mask[i] in "([{") - (mask[i] in ")]}")
    return -1


def dropped_part(line, mask, _):
    for found in OPERATOR.finditer(mask):
        ends = ENDS_OF_A_TERM.get(found.group(0))
        end = end_of_part(mask, found.end() + 1, ends) if ends else -1
        if end > 0:
            yield found.start() - 1, end, ""


def negated(line, mask, _):
    for found in re.finditer(r"\bif \(", mask):
        end = matching(mask, found.end() - 1)
        if end > 0:
            yield found.end(), end, f"!({line[found.end():end]})"
    for found in re.finditer(r" \? ", mask):
        colon = end_of_part(mask, found.end(), ())
        end = end_of_part(mask, colon + 3, ()) if colon > 0 and mask[colon : colon + 3] == " : " else -1
        if end > 0:
            yield found.end(), end, f"{line[colon + 3:end]} : {line[found.end():colon]}"


def swapped_arguments(line, mask, _):
    part = r"[\w.&*]+(?:(?:->|\.)\w+|\[\w+\])*"
    for found in re.finditer(rf"(?<=[(,])( ?)({part}), ({part})(?=[,)])", mask):
        if found.group(2) != found.group(3):
            yield found.start(2), found.end(3), f"{line[found.start(3):found.end(3)]}, {line[found.start(2):found.end(2)]}"


def other_constant(line, mask, _):
    for found in re.finditer(r"(?<![\w.\]])(\d+)(?![\w.])", mask):
        number = int(found.group(1))
        yield *found.span(), str(number + 1)
        if number > 0:
            yield *found.span(), str(number - 1)
    for found in re.finditer(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?|(?<![\w.])\d+e-?\d+", mask):
        yield *found.span(), f"{float(found.group(0)) * 1.5:g}" if float(found.group(0)) else "0.5"


def twin(line, mask, _):
    for found in re.finditer(r"[A-Za-z]+", mask):
        word = TWINS.get(found.group(0).lower())
        if word and found.group(0) in (word.lower(), found.group(0).lower()):
            yield *found.span(), word


def other_name(line, mask, names):
    """The field or the value of an enum that is declared next to this one, of the same type."""
    for found in re.finditer(r"(?<=->|[\w\]]\.)[a-z]\w*(?!\w| ?\()|\b[A-Z][A-Z0-9]*_\w*[A-Z]\w*\b(?!\()", mask):
        for other in sorted(names.get(found.group(0), ())):
            yield *found.span(), other


def dropped_statement(line, mask, _):
    found = re.fullmatch(r"\s*((?!return\b|goto\b|case\b|else\b|do\b)(?:[\w>.*\[\]-]+ [-+*/|&]?= .*|[\w>.-]+\(.*\)|"
                         r"[\w>.\[\]-]+(?:\+\+|--)|break|continue));", mask)
    if found and mask.count("(") == mask.count(")"):
        yield *found.span(1), ""


def other_word(line, mask, _):
    """A letter of a word is left out: of a flag, a key, a message."""
    for found in re.finditer(r'"(~{3,})"', mask):
        text = line[found.start(1) : found.end(1)]
        for word in re.finditer(r"(?<![%\\\w])[a-zA-Z]{3,}", text):
            middle = found.start(1) + word.start() + len(word.group(0)) // 2
            yield middle, middle + 1, ""


LETTER = "letter left out of a text"
KINDS = {
    **{name: opposite(table) for name, table in OPPOSITES.items()},
    "dropped part": dropped_part,
    "negated condition": negated,
    "swapped arguments": swapped_arguments,
    "other constant": other_constant,
    "other word of a pair": twin,
    "other field or value": other_name,
    "dropped statement": dropped_statement,
    LETTER: other_word,
}


def names_beside(texts):
    """Of each field and each value of an enum: the names declared just before and after it with the same type."""
    beside = {}

    def are_beside(names):
        for one, two in zip(names, names[1:]):
            beside.setdefault(one, set()).add(two)
            beside.setdefault(two, set()).add(one)

    for text in texts:
        for body in re.findall(r"\bstruct \w* ?\{(.*?)\n\}", masked(text), re.S):
            last, names = None, []
            for kind, declared in re.findall(r"^\s+((?:const |struct |enum |unsigned )*\w+) (\**\w+(?:, \**\w+)*);", body, re.M):
                words = declared.split(", ")
                kind = kind + "*" * words[0].count("*")
                names = names if kind == last else []
                last = kind
                names += [word.lstrip("*") for word in words]
                are_beside(names)
        for body in re.findall(r"\benum \w+ \{(.*?)\}", masked(text), re.S):
            are_beside([name for name in re.findall(r"\b([A-Z]\w+)\b(?=\s*[,=]|\s*$)", body) if not name.endswith("_COUNT")])
    return beside


def candidates(line, mask, names):
    """{kind: [(begin, end, instead)]} of the kinds that change something in the line."""
    found = {name: list(dict.fromkeys(kind(line, mask, names))) for name, kind in KINDS.items()}
    return {name: places for name, places in found.items() if places}


class Lot:
    """Faults in the order in which the seed draws them, without end; who takes one may refuse it."""

    def __init__(self, root, random):
        self.root, self.random, self.drawn = root, random, set()
        paths = sorted(p for p in (root / "src").rglob("*.[ch]") if not str(p.relative_to(root)).startswith(NEED_A_GPU))
        self.texts = {p.relative_to(root): p.read_text() for p in paths}
        self.names = names_beside(self.texts.values())
        self.lines = [(path, *line) for path, text in self.texts.items() for line in lines_of_code(text)]

    def draw(self):
        """(file, number of the line from 0, the line, the line with the fault, the kind)"""
        while True:
            path, number, line, mask = self.random.choice(self.lines)
            kinds = candidates(line, mask, self.names)
            if (path, number) in self.drawn or not kinds:
                continue
            self.drawn.add((path, number))
            kind = self.random.choice(sorted(kinds))
            begin, end, instead = self.random.choice(kinds[kind])
            return path, number, line, line[:begin] + instead + line[end:], kind

    def block(self, path, number, line, changed):
        """Old and new text for a list: the line, with those after it until it stands once in the file."""
        text, lines = self.texts[path], self.texts[path].split("\n")
        flat = [" ".join(line.split()) for line in lines]
        whole = " ".join(" ".join(flat).split())
        for more in range(12):
            old = [flat[number + i] for i in range(more + 1) if flat[number + i]]
            if whole.count(" ".join(old)) == 1:
                return "\n".join(old), "\n".join([" ".join(changed.split()), *old[1:]])
        return None
