"""Plans that are exported in tests: the lists of them, and the release of a framework that each is for."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPORTED = ROOT / "tests/data/export"
LISTS = ROOT / "src/target/releases"
PLANS = ROOT / "tests/data/frameworks/plans.txt"


def cases(path):
    """(name of the file, arguments of `weft export`)"""
    for row in path.read_text().splitlines():
        if row.strip() and not row.startswith("#"):
            yield row.split(None, 1)


def usual_releases():
    """{framework: release}: the first row of a framework in the program's table of targets is the one that its
    name alone stands for."""
    rows = re.findall(r'^ *\{"(\w+)", "([\w.]+)", "', (ROOT / "src/target/targets.c").read_text(), re.M)
    return dict(reversed(rows))


def target_of(arguments):
    """(framework, release) of `--to FRAMEWORK[@RELEASE]`; a batch script is Megatron-LM's."""
    framework, _, release = re.search(r"--to (\S+)", arguments)[1].partition("@")
    framework = "megatron" if framework == "slurm" else framework
    return framework, release or usual_releases()[framework]


def list_of(framework, release):
    """The list of that release, or of its latest patch; None: there is none."""
    found = [path for path in LISTS.glob(f"{framework}-{release}*.txt")
             if path.stem[len(framework) + 1 + len(release):][:1] in ("", ".")]
    return max(found, default=None)
