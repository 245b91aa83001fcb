"""REST: people, and whose logins are refused at the moment."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import lockout, users
from controlplane.access.presenters import lockout_view, user_view
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from inference.contracts.answers import Page
from inference.contracts.bodies.access import NewPasswordBody, UnlockBody, UserBody, UserChangeBody
from inference.contracts.states import Subject, UserRole
from inference.contracts.views.access import LockoutView, UnlockedView, UserView

_ADMINS_ONLY = dict.fromkeys(("get", "post", "patch", "put", "delete"), UserRole.ADMIN)


class UserListApi(ControlView):
    roles = _ADMINS_ONLY

    listing = Listing(
        orders={"username": "username", "created_at": "date_joined"},
        order="username",
        filters={
            "username": Filter("username"),
            "role": Filter("account__role", UserRole),
            "active": Filter("is_active", bool),
        },
    )

    @documented("List users", answers={200: Page[UserView]})
    def get(self, request: Request) -> Response:
        """By name."""
        return self.page(users.user_list(), lambda rows: [user_view(user) for user in rows])

    @documented("Create a user", body=UserBody, answers={201: UserView}, refusals=[403, 409])
    def post(self, request: Request) -> Response:
        wanted = body(request, UserBody)
        user = users.user_create(
            username=wanted.username, password=wanted.password, role=wanted.role, grants=wanted.grants
        )
        return answer(user_view(user), 201)


class UserApi(ControlView):
    roles = _ADMINS_ONLY

    @documented("Show a user", answers={200: UserView}, refusals=[403, 404])
    def get(self, request: Request, username: str) -> Response:
        return answer(user_view(users.user_get(username)))

    @documented("Change a user", body=UserChangeBody, answers={200: UserView}, refusals=[403, 404, 409])
    def patch(self, request: Request, username: str) -> Response:
        """Role, grants, and whether they may log in. The last admin stays one."""
        wanted = body(request, UserChangeBody)
        users.user_change(username=username, role=wanted.role, grants=wanted.grants, active=wanted.active)
        return answer(user_view(users.user_get(username)))

    @documented("Delete a user", answers={204: None}, refusals=[403, 404, 409])
    def delete(self, request: Request, username: str) -> Response:
        """With their sessions and tokens. The audit keeps their name."""
        users.user_delete(username=username)
        return Response(status=204)


class UserPasswordApi(ControlView):
    roles = _ADMINS_ONLY

    @documented("Reset a password", body=NewPasswordBody, answers={204: None}, refusals=[403, 404])
    def put(self, request: Request, username: str) -> Response:
        """They are logged out everywhere."""
        users.password_reset(username=username, password=body(request, NewPasswordBody).password)
        return Response(status=204)


class LockoutListApi(ControlView):
    roles = _ADMINS_ONLY

    listing = Listing(
        orders={"until": "until", "value": "value"}, order="-until", filters={"subject": Filter("subject", Subject)}
    )

    @documented("List lockouts", answers={200: Page[LockoutView]})
    def get(self, request: Request) -> Response:
        """User names and addresses whose logins are refused now, the longest first."""
        return self.page_of([lockout_view(one) for one in lockout.lockouts_now()], key="value")


class UnlockApi(ControlView):
    roles = _ADMINS_ONLY

    @documented("Unlock a login", body=UnlockBody, answers={200: UnlockedView}, refusals=[403])
    def post(self, request: Request) -> Response:
        """Forget the failed logins of a name or an address."""
        wanted = body(request, UnlockBody)
        return answer(UnlockedView(failures=lockout.unlock(subject=wanted.subject, value=wanted.value)))
