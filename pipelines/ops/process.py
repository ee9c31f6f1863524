"""Processes that must not outlive the one that started them."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

import psutil

__all__ = ["die_with_parent"]


PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Kills this process when dvc dies: an orphan would write into the folders of the next `dvc repro`."""
    number, tells = os.getppid(), sys.platform == "linux"
    if tells:  # the kernel does; elsewhere we look
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    started_by = multiprocessing.parent_process()  # of a worker; None in a stage
    try:
        parent = psutil.Process(number)
        command, above = parent.cmdline(), parent.ppid()
    except psutil.NoSuchProcess:
        command = None
    # It may have died before we asked.
    if command is None or os.getppid() != number or (started_by is not None and started_by.pid != number):
        sys.exit("the process that started this stage is gone")
    # A shell that DVC started and that did not become this process: it outlives DVC.
    shell = any("pipelines.stages" in word for word in command)

    def lives() -> bool:
        try:
            return os.getppid() == number and (not shell or parent.ppid() == above)
        except psutil.NoSuchProcess:
            return False

    def watch() -> None:
        while lives():
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    if shell or not tells:
        threading.Thread(target=watch, daemon=True).start()
