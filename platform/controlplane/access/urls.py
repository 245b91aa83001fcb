from __future__ import annotations

from django.urls import path

from controlplane.access import apis, oidc_views, session_apis, token_apis, user_apis

urlpatterns = [
    path("session", session_apis.SessionApi.as_view()),
    path("session/password", session_apis.OwnPasswordApi.as_view()),
    path("session/oidc", oidc_views.oidc_start),
    path("session/oidc/callback", oidc_views.oidc_callback, name="oidc-callback"),
    path("users", user_apis.UserListApi.as_view()),
    path("users/<str:username>", user_apis.UserApi.as_view()),
    path("users/<str:username>/password", user_apis.UserPasswordApi.as_view()),
    path("lockouts", user_apis.LockoutListApi.as_view()),
    path("lockouts/unlock", user_apis.UnlockApi.as_view()),
    path("tokens", token_apis.TokenListApi.as_view()),
    path("tokens/<uuid:token_id>", token_apis.TokenApi.as_view()),
    path("tokens/<uuid:token_id>/rotate", token_apis.TokenRotateApi.as_view()),
    path("keys", apis.KeyListApi.as_view()),
    path("keys/<uuid:key_id>", apis.KeyApi.as_view()),
    path("keys/<uuid:key_id>/rotate", apis.KeyRotateApi.as_view()),
]
