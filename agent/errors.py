"""Our own failures. A candidate's failure is never one of these; it is a value.

MusaagentError
├── UsageError            bad flag, bad path, bad file: the user can mend it (exit code 2)
│   └── TaskError         the op file is broken
├── AwaitingAnswer        not a failure: the next answer has to come from outside (exit code 4)
└── InfraError            we failed: exit code 3, never charged to a candidate
    ├── ToolchainMissing  no compiler, no GPU, no SDK for what was asked
    ├── SandboxLost       the sandbox or a worker died for a reason that is not the candidate
    └── PolicyUnavailable the model cannot be reached, or answered nothing
"""


class MusaagentError(Exception):
    """Base; str() is one clear line: what, where, what to do."""


class UsageError(MusaagentError):
    """The user's input is at fault."""


class TaskError(UsageError):
    """The op file cannot be used as a task."""


class AwaitingAnswer(MusaagentError):
    """The run stands still until an answer is brought; everything so far is on disk."""


class InfraError(MusaagentError):
    """Our failure."""


class ToolchainMissing(InfraError):
    """A compiler, device or SDK that was asked for is not there."""


class SandboxLost(InfraError):
    """A sandboxed process was lost for a reason that is not the candidate's."""


class PolicyUnavailable(InfraError):
    """The policy cannot answer at all."""
