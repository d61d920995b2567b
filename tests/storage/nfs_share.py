"""A folder of this machine as an NFS 4.2 share on 127.0.0.1, by nfs-ganesha; it can go away and come back."""

from __future__ import annotations

import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from windlass_testbed.waiting import wait_until

PSEUDO = "/models"
GRACE_S = 20
"""Lease and grace. An emulated guest that boots beside other work is late by some seconds; at 5 s its lease lapsed."""
CONFIG = """
NFS_CORE_PARAM {{ Protocols = 4; Bind_addr = 127.0.0.1; NFS_Port = {port}; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSv4 {{ Grace_Period = {grace_s}; Lease_Lifetime = {grace_s}; Minor_Versions = 1, 2; RecoveryBackend = fs;
  RecoveryRoot = {state}; }}
EXPORT {{ Export_Id = 1; Path = {folder}; Pseudo = {pseudo}; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
  Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"""


@dataclass
class Share:
    """The server's process and what it serves."""

    folder: Path
    work: Path
    port: int = 0
    server: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.work / "ganesha.log"

    def come(self) -> None:
        """Start the server and wait until it listens; on the same port as before."""
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "state").mkdir(exist_ok=True)
        if not self.port:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.port = int(one.getsockname()[1])
        file = self.work / "ganesha.conf"
        state = self.work / "state"
        text = CONFIG.format(port=self.port, grace_s=GRACE_S, state=state, folder=self.folder, pseudo=PSEUDO)
        file.write_text(text)
        command = ["/usr/bin/ganesha.nfsd", "-F", "-L", str(self.log), "-f", str(file), "-p", str(self.work / "pid")]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listens() -> bool:
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.port)) == 0

        wait_until(listens, f"the NFS server's listening, whose log is {self.log},", look_s=0.2)

    def go(self) -> None:
        """Kill the server: clients get no answer from now on."""
        if self.server is not None:
            self.server.send_signal(signal.SIGKILL)
            self.server.wait()
            self.server = None
