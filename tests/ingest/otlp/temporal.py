"""A workflow and an activity of a customer's, for what Temporal's own OpenTelemetry interceptor reports of them."""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def ship(order: str) -> str:
    return f"{order} shipped"


@workflow.defn
class Order:
    """Ships one order."""

    @workflow.run
    async def run(self, order: str) -> str:
        return await workflow.execute_activity(ship, order, start_to_close_timeout=timedelta(seconds=30))
