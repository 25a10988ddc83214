"""A plan that was corrected by click: checked against the hosts and estimated like any other."""

from __future__ import annotations

from agent import planner
from agent.desk import Desk
from agent.obstacles import anyhow, say
from lab.errors import MoveRefused
from lab.language import is_chinese, state_word
from lab.plan import Plan
from lab.run import Answer, Edit, Request


def revise(here: Desk, request: Request, edit: Edit, lab: planner.Lab) -> str:
    """The corrected plan is in place of the experiment's, or its thread reads why not; returns the answer's kind."""
    prepared = planner.prepare(_fresh(edit.plan), lab, here.ledger, here.settings.limits.max_runs, request.user)
    if prepared.question is not None:
        text = say(edit.plan, "stays", question=prepared.question, id=edit.experiment_id)
        here.ledger.answer(request.id, Answer(kind="question", text=text))
        return "question"
    plan, estimate = prepared.plan, prepared.estimate
    try:
        here.ledger.revise(request.id, edit.experiment_id, edit.revision, plan, estimate, prepared.reused)
    except MoveRefused as refused:
        state = state_word(refused.state, is_chinese(edit.plan.request_text))
        text = say(edit.plan, "not_changed", request=request.text, what=refused.subject, state=state)
        here.ledger.answer(request.id, Answer(kind="reply", text=text))
        return "reply"
    return "revised"


def _fresh(plan: Plan) -> Plan:
    """The plan without what was noted of the hosts when it was first made; the planner looks again."""
    stale = anyhow("no_host") | anyhow("no_card")
    return plan.model_copy(update={"notes": tuple(note for note in plan.notes if note not in stale)})
