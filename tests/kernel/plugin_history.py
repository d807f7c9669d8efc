"""A run as a runtime's driver meets it: the history grows by what it calls, and each request has one turn more."""

from dataclasses import replace

from kernel.drivers import DriverReply, ModelRequest, ToolOffer
from kernel.drivers.plugin import RuntimeDriver
from kernel.messages import Message

OFFERS = (
    ToolOffer("read", "reads", {"type": "object"}),
    ToolOffer("write", "writes", {}),
    ToolOffer("escalate", "asks", {}),
)
RUN = "run-1"


class PluginRun:
    """One run of a driver, without a core: every call is answered "<name>: done" unless `answers` has other replies."""

    def __init__(self, driver: RuntimeDriver, offers: tuple[ToolOffer, ...] = OFFERS, run_id: str = RUN) -> None:
        self.driver = driver
        self.request = ModelRequest(run_id, 1, (Message("user", "the task", "task"),), offers)
        self.answers: dict[str, tuple[str, str, str]] = {}
        self.replies: list[DriverReply] = []

    async def ask(self) -> DriverReply:
        """Ask for what is next, as the edge does."""
        return await self.driver.reply(self.request)

    def go_on(self, reply: DriverReply, *context: str, finale: bool = False) -> None:
        """Answer the calls of a reply and open the next turn."""
        turn = self.request.turn
        calls = tuple(replace(call, call_id=f"{turn}-{place}") for place, call in enumerate(reply.calls))
        told = [Message("assistant", "", "model", calls)]
        for call in calls:
            status, code, text = self.answers.get(call.name, ("ok", "", f"{call.name}: done"))
            told.append(Message("tool", text, "tool", call_id=call.call_id, status=status, code=code))
        told += [Message("context", text, "hints") for text in context]
        messages = (*self.request.messages, *told)
        tools = () if finale else self.request.tools
        self.request = replace(self.request, turn=turn + 1, messages=messages, finale=finale, tools=tools)

    async def to_the_end(self) -> DriverReply:
        """Answer all calls until the runtime ends its turn, and return that ending; the replies are kept."""
        while True:
            reply = await self.ask()
            self.replies.append(reply)
            if not reply.calls or reply.escalation is not None:
                return reply
            self.go_on(reply)

    def called(self) -> list[list[str]]:
        """Return the names called, by reply."""
        return [[call.name for call in reply.calls] for reply in self.replies if reply.calls]
