"""Completion in bash, zsh and fish: each with what kubectl itself gives it, as far as the shell is on this machine.

kubectl's scripts ask ``kubectl __complete``, which runs ``kubectl_complete-dra`` from PATH. Loaded into a shell without
a terminal, they are asked for what follows a line.
"""

import os
import shutil
import subprocess
import sys

import pytest

BASH = r"""
_get_comp_words_by_ref() {{
  cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=("${{COMP_WORDS[@]}}") cword=$COMP_CWORD
}}
__ltrim_colon_completions() {{ :; }}; compopt() {{ :; }}
source <(kubectl completion bash)
COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )) COMP_LINE="{line}" COMP_POINT=${{#COMP_LINE}} COMP_TYPE=9
__start_kubectl
printf '%s\n' "${{COMPREPLY[@]}}"
"""

ZSH = r"""
compdef() {{ :; }}
_describe() {{ print -rl -- "${{completions[@]}}"; return 0; }}
source <(kubectl completion zsh)
words=({line}); CURRENT=${{#words}}
_kubectl
"""

FISH = 'kubectl completion fish | source; complete --do-complete "{line}"'

SHELLS = {"bash": (["bash", "-c"], BASH), "zsh": (["zsh", "-fc"], ZSH), "fish": (["fish", "--no-config", "-c"], FISH)}


@pytest.fixture
def path(tmp_path):
    """A PATH with the two programs of the plugin."""
    for name, module in (("kubectl-dra", "main"), ("kubectl_complete-dra", "completion")):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dra.cli.kubectl.{module} "$@"\n')
        program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("kubectl dra au", {"audit"}, id="command"),
        pytest.param("kubectl dra get cl", {"claims"}, id="kind"),
        pytest.param("kubectl dra audit --fail", {"--fail-on"}, id="option"),
        pytest.param("kubectl dra usage --by n", {"namespace", "node"}, id="value"),
        pytest.param("kubectl dra get claims -o custom", {"custom-columns="}, id="format"),
        pytest.param("kubectl dra explain reason WorkloadGo", {"WorkloadGone"}, id="reason"),
        pytest.param("kubectl dra explain stateful", {"statefulset"}, id="workload"),
    ],
)
def test_a_shell_offers_what_can_follow(path, tmp_path, shell, line, offered):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here (nor where CI runs): apt-get install {shell}, then run this file")
    command, script = SHELLS[shell]
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run(
        [*command, script.format(line=line)], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    found = {each.split("\t")[0].split(" ")[0].partition(":")[0].strip() for each in done.stdout.splitlines()}
    assert found - {""} == offered, done.stderr
