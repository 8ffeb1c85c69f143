"""One program per way to write files: how it is started, and what must hold of its files after a fault and at the end.

A program always resumes what it finds in its folder, as its user would. `in` has what it reads, `out` what it writes.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from faults.starting import Copy, Starter, Text, start_new, wait_for_groups
from processes import environment
from scale_files import write_lines
from toolgrade.errors import BadLineWarning, DataFileError
from toolgrade.evaluation import read_results
from toolgrade.inputs import read_cases
from toolgrade.judge import Judge
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import FakeOpenAI, ReceivedRequest, Reply, sample_prompt
from victims import EVALUATION, SCORE, SINK_WRITER, times_written

PRELOAD = "toolgrade.cli.main,toolgrade.cli.score,toolgrade.cli.convert,toolgrade.evaluation.files"
"""Modules that are loaded before a program counts as started, so that faults hit its work and not its imports."""

COMMAND = "from toolgrade.cli.main import run; run()"
"""The text of the command line."""


def check(holds: object, sentence: str) -> None:
    """Raise an `AssertionError` with a sentence unless a condition holds; `assert` can be switched off."""
    if not holds:
        raise AssertionError(sentence)


class Program(ABC):
    """A program of one folder. `done_codes` are its exit codes when all is done."""

    name: str
    modules: str = PRELOAD
    done_codes: tuple[int, ...] = (0,)
    is_command: bool = True
    """Whether it is the command line, which shows its user no traceback."""
    refusals: tuple[str, ...] = ()
    """Words of the error that stands for "all is done already"."""
    disk_share: float = 1.2
    """The largest disk on which it is tried, in sizes of its files at the end."""
    writers: int = 1
    """How many programs of its kind wrote since the last check."""

    def __init__(self, folder: Path) -> None:
        """Write what the program reads."""
        self.folder = folder / self.name
        self.input = self.folder / "in"
        self.output = self.folder / "out"
        self.input.mkdir(parents=True)
        self.output.mkdir()
        self.groups: set[int] = set()
        self.settings = environment(TOOLGRADE_JUDGE_API_KEY="none")
        self.starter = Starter(self.modules, self.settings, self.folder / "errors.txt")
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Write the files that the program reads."""

    @abstractmethod
    def arguments(self) -> Text:
        """Return the text of the program, and its arguments."""

    @abstractmethod
    def check_partial(self) -> None:
        """Check the files after a fault: what was done is there once, and readable or refused with a clear error."""

    @abstractmethod
    def check_complete(self) -> None:
        """Check the files at the end: they are those of a run without faults."""

    def piped_arguments(self) -> Text:
        """Return the same for a program that prints much."""
        return self.arguments()

    def forget(self) -> None:  # noqa: B027 - not every program has something to forget
        """Take the files as they are, because one was changed from outside."""

    def fresh(self) -> None:
        """Empty the folder of what the program writes; it may be the root of a disk, so it stays."""
        self.wait_for_children()
        for path in self.output.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def start(self, before: Callable[[], None] | None = None, program: Text | None = None) -> subprocess.Popen[bytes]:
        """Start the program as a process of its own; `before` runs in it before all."""
        process = start_new(program or self.arguments(), self.output, self.settings, before)
        self.groups.add(process.pid)
        return process

    def start_copy(self) -> Copy:
        """Start the program in a process that has loaded its modules, so that a signal hits its work."""
        process = self.starter.start(self.arguments(), self.output)
        self.groups.add(process.pid)
        return process

    def is_done(self, code: int, err: bytes) -> bool:
        """Return whether an exit means that all is done."""
        return code in self.done_codes or any(word.encode() in err for word in self.refusals)

    def check_exit(self, code: int, err: bytes, *, after: str) -> bool:
        """Check that a program that was not killed did its work or said why not; return whether it did its work."""
        if self.is_done(code, err):
            return True
        text = err.decode(errors="replace")
        check(code > 0, f"{self.name}: ended with {code} after {after}: {text}")
        if self.is_command:
            check("Traceback" not in text, f"{self.name}: showed a traceback after {after}: {text}")
            check("error: " in text, f"{self.name}: gave no reason after {after}: {text!r}")
        else:
            last = text.strip().rpartition("\n")[2]
            check("Error: " in last, f"{self.name}: gave no reason after {after}: {text!r}")
        return False

    def finish(self) -> None:
        """Run to the end without a fault, and check the files."""
        self.wait_for_children()
        process = self.start_copy()
        _, err = process.communicate()
        check(self.is_done(process.returncode, err), f"{self.name}: cannot be finished: {err.decode()}")
        self.check_complete()

    def wait_for_children(self) -> None:
        """Wait until no process of an earlier run is left."""
        check(wait_for_groups(self.groups), f"{self.name}: processes live on after the one that started them")


class ResultsProgram(Program):
    """A program that appends to a file of results: what stood there once must stay."""

    results = "r.jsonl"

    def fresh(self) -> None:
        """Forget what was written, too."""
        super().fresh()
        self.forget()

    def forget(self) -> None:
        """No line is known to be complete."""
        self.written = b""

    @property
    def path(self) -> Path:
        """The file of results."""
        return self.output / self.results

    def check_partial(self) -> None:
        """Complete lines stay as they are; no case stands there twice; a reader reads the file, or it is empty."""
        if not self.path.exists():
            check(not self.written, f"{self.name}: the results are gone")
            return
        data = self.path.read_bytes()
        check(data.startswith(self.written), f"{self.name}: a line that was complete is gone")
        self.written = data[: data.rfind(b"\n") + 1]
        check(all(times == 1 for times in times_written(self.path).values()), f"{self.name}: a case stands there twice")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadLineWarning)
            try:
                read_results(self.path)
            except DataFileError:
                check(not self.written, f"{self.name}: the results cannot be read")


class Score(ResultsProgram):
    """`toolgrade score` of one file."""

    name = "score"
    done_codes = (0, 1)
    program = COMMAND
    options: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Write cases, and the results of a run without faults."""
        self.files = self.write_files()
        self.fresh()
        self.start_copy().communicate()
        self.expected = self._lines()
        check(len(self.expected) >= 300, f"{self.name}: the run without faults has not scored all cases")

    def write_files(self) -> list[Path]:
        """Write the files that are scored."""
        return [write_lines(self.input / "cases.jsonl", 300, 1)]

    def arguments(self) -> Text:
        """Score, and resume."""
        words = ["score", *map(str, self.files), "--results", self.results, "--resume", *self.options]
        return self.program, words

    def piped_arguments(self) -> Text:
        """Print all cases."""
        program, words = self.arguments()
        return program, [*words, "-v", "--limit", "0"]

    def check_complete(self) -> None:
        """The lines are those of the run without faults, in their order, and the reader has each case once."""
        check(self._lines() == self.expected, f"{self.name}: other results")
        report = read_results(self.path)
        check(not report.interrupted, f"{self.name}: the results are incomplete")
        check(len(report.cases) == len(self.expected), f"{self.name}: a case is lost or stands there twice")

    def _lines(self) -> list[bytes]:
        return [line for line in self.path.read_bytes().splitlines() if line.startswith(b'{"case"')]


class ScoreParts(Score):
    """`toolgrade score --processes 2` of several files, part by part."""

    name = "score-processes"
    program = SCORE
    options = ("--processes", "2")

    def write_files(self) -> list[Path]:
        """Write six files of some parts each."""
        return [write_lines(self.input / f"{number}.jsonl", 60, number) for number in range(6)]


class Evaluation(ResultsProgram):
    """`evaluate` of an agent."""

    name = "evaluate"
    is_command = False
    modules = "toolgrade,toolgrade.evaluation.session,toolgrade.evaluation.results_file"
    agents_at_once = 3

    def prepare(self) -> None:
        """Run once without faults."""
        self.fresh()
        self.start_copy().communicate()
        self.expected = self._report()
        self.fresh()

    def fresh(self) -> None:
        """Nothing was asked; the list of questions is the agent's, and does not stand on the disk that is hurt."""
        super().fresh()
        (self.input / "asked.txt").unlink(missing_ok=True)
        self.agent_calls = 0
        (self.output / "asked.txt").symlink_to(self.input / "asked.txt")

    def forget(self) -> None:
        """What was asked before does not count."""
        super().forget()
        self.agent_calls, self.done = self._counts()

    def arguments(self) -> Text:
        """The program of the tests."""
        return EVALUATION, []

    def _counts(self) -> tuple[int, int]:
        """Return how many agents were asked, and how many trials are done."""
        log = self.output / "asked.txt"
        agent_calls = len(log.read_text(encoding="utf-8").split()) if log.exists() else 0
        return agent_calls, len(times_written(self.path)) if self.path.exists() else 0

    def _report(self) -> bytes:
        return (self.output / "report.json").read_bytes()

    def check_partial(self) -> None:
        """Only the agents that were at work when the program was stopped are asked again."""
        super().check_partial()
        agent_calls, done = self._counts()
        again = (agent_calls - self.agent_calls) - (done - self.done)
        check(again <= self.agents_at_once, f"evaluate: {again} agents were asked for nothing")
        self.agent_calls, self.done = agent_calls, done

    def check_complete(self) -> None:
        """The report is that of the run without faults, and each golden was asked in each trial."""
        self.check_partial()
        check(self._report() == self.expected, "evaluate: another report")
        check(set(times_written(self.path).values()) == {1}, "evaluate: a trial stands there twice")
        check(self.done == 20, "evaluate: not all trials are there")


class Convert(Program):
    """`toolgrade convert` of a large file, over an older one."""

    name = "convert"
    OLD = b'{"id": "old", "tools_called": []}\n'

    def prepare(self) -> None:
        """Write 17 MB of conversations, and their cases by a run without faults."""
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "look", "arguments": '{"text": "%s"}' % ("x" * 60_000)},
        }
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
        line = json.dumps({"messages": messages}) + "\n"
        (self.input / "runs.jsonl").write_text(line * (17 * 2**20 // len(line)), encoding="utf-8")
        self.path = self.output / "cases.jsonl"
        self.start_copy().communicate()
        self.expected = self.path.read_bytes()
        check(self.expected.count(b"\n") > 200, "convert: the run without faults has not converted all")

    def fresh(self) -> None:
        """An older file stands at the target."""
        super().fresh()
        self.path.write_bytes(self.OLD)

    def arguments(self) -> Text:
        """Convert to a file."""
        return COMMAND, ["convert", str(self.input / "runs.jsonl"), "--to", "cases.jsonl"]

    def piped_arguments(self) -> Text:
        """Print the cases."""
        return COMMAND, ["convert", str(self.input / "runs.jsonl"), "--to", "-"]

    def check_partial(self) -> None:
        """The target is the old file or the new one."""
        check(self.path.read_bytes() in (self.OLD, self.expected), "convert: an incomplete file")

    def check_complete(self) -> None:
        """The target is the new file."""
        check(self.path.read_bytes() == self.expected, "convert: another file")


def questions(requests: Iterable[ReceivedRequest], begin: str) -> Counter[str]:
    """Count the questions of a round; a request that was cut off by a kill has none."""
    messages = [request.body.get("messages") for request in requests]
    texts = [entries[-1]["content"] for entries in messages if entries]
    return Counter(text for text in texts if text.startswith(begin))


def _is_damaged(path: Path) -> bool:
    """Return whether SQLite finds a fault in a file."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute("PRAGMA integrity_check").fetchone() != ("ok",)
        except sqlite3.DatabaseError:
            return True


class CacheRun(Program):
    """A judge that asks fifteen questions, one after the other, with a cache in a file."""

    name = "judge-cache"
    is_command = False
    modules = "openai.resources.chat,toolgrade.judge.openai,toolgrade.testing"
    YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
    QUESTIONS = 15
    PROGRAM = """
import asyncio, sys
from toolgrade.judge import Judge
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import sample_prompt

async def ask():
    judge = Judge(OpenAIJudge("m", base_url=sys.argv[1]), cache="verdicts.sqlite")
    for number in range(int(sys.argv[3])):
        answer = await judge.ask(sample_prompt(f"{sys.argv[2]} {number}"))
        if answer.outcome.value != "ok":
            sys.exit(f"JudgeError: {answer.problem}")

asyncio.run(ask())
"""

    def prepare(self) -> None:
        """Start the endpoint, which says yes."""
        self.rounds = 0
        self.server = FakeOpenAI(answer=lambda _request: Reply(self.YES)).start()

    def arguments(self) -> Text:
        """Ask all questions."""
        return self.PROGRAM, [self.server.base_url, self._round, str(self.QUESTIONS)]

    @property
    def _round(self) -> str:
        return f"round-{self.rounds}"

    def fresh(self) -> None:
        """Nothing was asked."""
        super().fresh()
        self.rounds += 1
        self.asked_before: Counter[str] = Counter()

    def forget(self) -> None:
        """Ask other questions."""
        self.rounds += 1
        self.asked_before = Counter()

    def check_partial(self) -> None:
        """A question whose answer was used is not asked again: at most the one that was under way is."""
        counts = questions(self.server.requests, f"{self._round} ")
        new = counts - self.asked_before
        again = [text for text in new if text in self.asked_before]
        check(len(again) <= self.writers, f"judge-cache: asked again: {again}")
        # One more may be a question of the program that was stopped before, which the server read only now.
        check(
            all(times <= self.writers + 1 for times in new.values()),
            "judge-cache: a question was asked twice by one program",
        )
        self.asked_before = counts

    def check_complete(self) -> None:
        """All verdicts are in the cache."""
        self.check_partial()
        judge = Judge(OpenAIJudge("m", base_url=self.server.base_url), cache=self.output / "verdicts.sqlite")
        prompts = [sample_prompt(f"{self._round} {number}") for number in range(self.QUESTIONS)]
        # SQLite reads a page of zeros as an empty one, so a torn file may lose verdicts, which are asked again.
        is_whole = all(judge.cached(prompt) for prompt in prompts) or _is_damaged(self.output / "verdicts.sqlite")
        check(is_whole, "judge-cache: a verdict is lost")
        judge._cache.close()  # type: ignore[union-attr]  # noqa: SLF001 - as above


class SinkRun(Program):
    """Runs that a `JsonlSink` appends; each session appends its own."""

    name = "sink"
    is_command = False
    modules = "toolgrade,toolgrade.capture.sinks"
    RUNS = 100

    def prepare(self) -> None:
        """There is nothing to read."""
        self.fresh()

    def fresh(self) -> None:
        """No session has begun."""
        super().fresh()
        self.sessions = 0
        self.forget()

    def forget(self) -> None:
        """No run is known."""
        self.ids: list[str] = []

    def arguments(self) -> Text:
        """Append the runs of a new session."""
        self.sessions += 1
        return SINK_WRITER, ["runs.jsonl", f"s{self.sessions}", str(self.RUNS), "2000"]

    def check_partial(self) -> None:
        """Runs that were there are there, once and in their order, and each stop tears at most one line."""
        path = self.output / "runs.jsonl"
        if not path.exists() or not path.stat().st_size:
            check(not self.ids, "sink: the runs are gone")
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                ids = [str(case.id) for case in read_cases(path)]
            except DataFileError:  # the first line of all is torn
                ids = []
        check(len(caught) <= self.sessions, "sink: more torn lines than stops")
        check(ids[: len(self.ids)] == self.ids, "sink: a run is lost")
        check(len(set(ids)) == len(ids), "sink: a run stands there twice")
        self.ids = ids

    def check_complete(self) -> None:
        """All runs of the last session are there."""
        self.check_partial()
        last = [f"s{self.sessions}-{number}" for number in range(self.RUNS)]
        check(self.ids[-self.RUNS :] == last, "sink: a run is lost")


PROGRAMS: tuple[type[Program], ...] = (Score, ScoreParts, Evaluation, Convert, CacheRun, SinkRun)
