"""The addresses of the pages. Ids are senders' words: a slash, a percent sign or a lone dot in one stays part of it."""

from django.urls import URLPattern, path

from debugger.views import (
    conformance,
    driving,
    escalations,
    event_detail,
    keys,
    knowledge_edit,
    knowledge_item,
    knowledge_list,
    knowledge_try,
    operations,
    probes,
    project_settings,
    request,
    run_detail,
    run_list,
    sign_in,
    why,
)
from ingest.path_ids import IdConverter  # noqa: F401  (registers the `id` of the patterns)

urlpatterns: list[URLPattern] = [
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("metrics", probes.metrics, name="metrics"),
    path("", sign_in.home, name="home"),
    path("conformance/", conformance.conformance, name="conformance"),
    path("conformance/<id:condition>/<id:column>/", conformance.conformance, name="conformance-cell"),
    path("sign-in/", sign_in.explain, name="sign-in"),
    path("sign-in/<str:token>/", sign_in.use_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("<slug:project>/runs/", run_list.run_list, name="run-list"),
    path("<slug:project>/runs/rows/latest/", run_list.run_list_rows, name="run-list-rows"),
    path("<slug:project>/runs/<id:run_id>/", run_detail.run_detail, name="run-detail"),
    path("<slug:project>/runs/<id:run_id>/rows/", run_detail.run_rows, name="run-rows"),
    path("<slug:project>/runs/<id:run_id>/waiting/", driving.waiting, name="run-waiting"),
    path("<slug:project>/runs/<id:run_id>/waiting/answer/", driving.answer_ask, name="run-answer"),
    path("<slug:project>/runs/<id:run_id>/cancel/", driving.cancel, name="run-cancel"),
    path("<slug:project>/runs/<id:run_id>/delete/", project_settings.remove_run, name="run-delete"),
    path("<slug:project>/runs/<id:run_id>/activations/<id:activation_id>/", why.why, name="why"),
    path("<slug:project>/runs/<id:run_id>/events/<id:event_id>/", event_detail.event_detail, name="event-detail"),
    path("<slug:project>/runs/<id:run_id>/events/<id:event_id>/data/", event_detail.event_data, name="event-data"),
    path("<slug:project>/runs/<id:run_id>/requests/<id:event_id>/", request.request_detail, name="request-detail"),
    path("<slug:project>/runs/<id:run_id>/requests/<id:event_id>/data/", request.request_data, name="request-data"),
    path("<slug:project>/keys/", keys.keys, name="keys"),
    path("<slug:project>/keys/<int:key_id>/", keys.key_deliveries, name="key-deliveries"),
    path("<slug:project>/keys/<int:key_id>/quota/", keys.set_quota, name="key-quota"),
    path("<slug:project>/keys/<int:key_id>/revoke/", keys.revoke, name="key-revoke"),
    path("<slug:project>/knowledge/", knowledge_list.knowledge_list, name="knowledge-list"),
    path("<slug:project>/knowledge/new/", knowledge_edit.new_item, name="knowledge-new"),
    path("<slug:project>/knowledge/tokens/", knowledge_edit.count_tokens, name="knowledge-tokens"),
    path("<slug:project>/knowledge/try/", knowledge_try.try_knowledge, name="knowledge-try"),
    path("<slug:project>/knowledge/starter/", knowledge_list.import_starter, name="knowledge-starter"),
    path("<slug:project>/knowledge/export/", knowledge_list.export, name="knowledge-export"),
    path("<slug:project>/knowledge/items/<id:knowledge_id>/", knowledge_item.knowledge_item, name="knowledge-item"),
    path(
        "<slug:project>/knowledge/items/<id:knowledge_id>/revise/", knowledge_edit.revise_item, name="knowledge-revise"
    ),
    path(
        "<slug:project>/knowledge/items/<id:knowledge_id>/change/", knowledge_item.change_item, name="knowledge-change"
    ),
    path("<slug:project>/escalations/", escalations.escalation_list, name="escalation-list"),
    path("<slug:project>/escalations/<id:run_id>/", escalations.escalation, name="escalation"),
    path("<slug:project>/operations/", operations.operations, name="operations"),
    path("<slug:project>/settings/", project_settings.project_settings, name="project-settings"),
    path("<slug:project>/settings/retention/", project_settings.set_retention, name="project-retention"),
    path("<slug:project>/settings/redaction/", project_settings.set_redaction, name="project-redaction"),
    path("<slug:project>/settings/delete/", project_settings.remove_project, name="project-delete"),
]
