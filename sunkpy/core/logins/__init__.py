"""Personal login pods: the pure function `decide_login` says whether one is started, stopped or recreated."""

from sunkpy.core.logins.actions import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.logins.decide import decide_login
from sunkpy.core.logins.readiness import is_open, why_closed
from sunkpy.core.logins.view import LoginView, StatefulSet

__all__ = [
    "LoginAction",
    "LoginView",
    "RenewPod",
    "StartLogin",
    "StatefulSet",
    "StopLogin",
    "decide_login",
    "is_open",
    "why_closed",
]
