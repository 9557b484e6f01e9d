"""/etc as the guest finds it: nothing of the host's users, names or network."""

from __future__ import annotations

ETC_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n",
    "/etc/group": "root:x:0:\nuser:x:1000:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    "/etc/hosts": "127.0.0.1 localhost guest\n::1 localhost\n",
    "/etc/hostname": "guest\n",
    "/etc/resolv.conf": "",
    "/etc/host.conf": "multi on\n",
    "/etc/services": "echo 7/tcp\necho 7/udp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\nhttps 443/tcp\n",
    "/etc/protocols": "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n",
    "/etc/os-release": 'NAME="corebraid guest"\nID=guest\nPRETTY_NAME="corebraid guest"\n',
}
