"""Login pods of one's own: `decide_login(LoginView)`, which are started, stopped and made anew; all values, no I/O."""

from sunkpy.core.logins.actions import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.logins.decide import decide_login
from sunkpy.core.logins.told import is_open, why_closed
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
