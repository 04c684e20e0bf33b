"""Jobs that run until somebody stops them, and write down that they clean up."""

import asyncio

from trail import write

from pinlater import Job


class Waits(Job, queue="sleeps"):
    async def run(self, context):
        write("Waits begin")
        try:
            await asyncio.sleep(3600)
        finally:
            write("Waits cleanup")


class Beats(Job, queue="counts", heartbeat=3600):
    async def run(self, context):
        write("Beats begin")
        try:
            while True:
                await asyncio.sleep(0.01)
                context.checkpoint()
        finally:
            write("Beats cleanup")


class Ends(Job, queue="touch"):
    async def run(self, context):
        write("Ends")
