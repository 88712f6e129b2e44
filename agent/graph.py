"""The agent: plan, write, compile, test, profile, revise. Read this page first.

    op.py -> [plan] -> [write] -> [compile] -> [test] -> [profile] -> best candidate
                                    ^  | fail    | fail     | goal not met, turns left
                                    |  v         v          v
                                    [revise] <--------------

Every arrow out of compile, test and profile is `after_evidence`; an answer without a candidate
goes to compile like any other and fails there.
"""

from typing import Literal

from langgraph.graph import END, START, StateGraph

from musaagent import nodes
from musaagent.state import Context, State


def after_answer(state: State) -> Literal["compile", "__end__"]:
    """A policy that has nothing (new) to offer ends the run."""
    return "__end__" if state.stop else "compile"


def after_evidence(state: State) -> Literal["test", "profile", "revise", "__end__"]:
    """Forward while the candidate holds; back to the policy while there are turns left."""
    match state.outcome:
        case "built":
            return "test"
        case "passed":
            return "profile"
        case "done":
            return "__end__"
        case _:
            return "revise" if state.turn < state.max_turns else "__end__"


def build_graph() -> StateGraph[State, Context, State, State]:
    """The graph, not compiled: who runs it chooses the checkpointer."""
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("plan", nodes.plan)
    graph.add_node("write", nodes.write)
    graph.add_node("compile", nodes.compile_candidate)
    graph.add_node("test", nodes.test_candidate)
    graph.add_node("profile", nodes.profile_candidate)
    graph.add_node("revise", nodes.revise)

    graph.add_edge(START, "plan")
    graph.add_edge("plan", "write")
    graph.add_conditional_edges("write", after_answer)
    graph.add_conditional_edges("compile", after_evidence, ["test", "revise", END])
    graph.add_conditional_edges("test", after_evidence, ["profile", "revise", END])
    graph.add_conditional_edges("profile", after_evidence, ["revise", END])
    graph.add_conditional_edges("revise", after_answer)
    return graph


def step_limit(max_turns: int) -> int:
    """Supersteps of the longest run: plan, and four nodes a turn."""
    return 4 * max_turns + 2


def graph_mermaid() -> str:
    """The picture that the README shows."""
    return build_graph().compile().get_graph().draw_mermaid().strip()
