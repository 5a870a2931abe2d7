"""A TCP proxy on loopback that delays, stalls and cuts: proxy.py PORT GROUPS, with commands on standard input.

It listens on 127.0.1.K, ports as the coordinator's, for each group of clients, and passes bytes on to 127.0.0.1. Commands, one a line:
`delay GROUP SECONDS`, `lose GROUP SHARE` (that share of the pieces waits as long as a lost packet does, and everything if it is 1),
`cut GROUP` (ends the connections that there are), `heal GROUP`.
"""

import asyncio
import random
import sys

# What TCP waits for at least before it sends a lost packet again.
RETRANSMISSION = 0.2


class Group:
    def __init__(self):
        self.delay, self.lost, self.writers = 0.0, 0.0, set()

    async def hold(self):
        """Until a piece may go on."""
        await asyncio.sleep(self.delay)
        while self.lost and random.random() < self.lost:
            await asyncio.sleep(RETRANSMISSION)

    async def pump(self, reader, writer):
        try:
            while piece := await reader.read(65536):
                await self.hold()
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def accept(self, port, source):
        async def accepted(reader, writer):
            self.writers.add(writer)
            try:
                await self.hold()
                there, onward = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            except OSError:
                self.writers.discard(writer)
                writer.close()
                return
            self.writers.add(onward)
            await asyncio.gather(self.pump(reader, onward), self.pump(there, writer))
            self.writers -= {writer, onward}

        return accepted

    def cut(self):
        for writer in list(self.writers):
            # Without a farewell.
            writer.transport.abort()


def obey(groups, words):
    match words:
        case ["delay", group, seconds]:
            groups[int(group)].delay = float(seconds)
        case ["lose", group, share]:
            groups[int(group)].lost = float(share)
        case ["cut", group]:
            groups[int(group)].cut()
        case ["heal", group]:
            groups[int(group)].delay = groups[int(group)].lost = 0.0
        case _:
            raise SystemExit(f"not a command: {words}")


async def main(port, count):
    groups = [Group() for _ in range(count)]
    for number, group in enumerate(groups):
        source = f"127.0.1.{number + 1}"
        await asyncio.start_server(group.accept(port, source), source, port)
    print("ready", flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        obey(groups, line.decode().split())


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
