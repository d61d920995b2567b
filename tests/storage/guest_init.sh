#!/bin/busybox sh
# The first program of the guest: loads drivers, takes the image's tree as its root, mounts the share, starts the agent.
# The kernel's command line brings windlass.name, windlass.share (host:/path) and windlass.port of the NFS server.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in virtio_pci virtio_net 9pnet_virtio 9p overlay nfsv4; do modprobe $module || echo "no module $module"; done

word() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^windlass\.$1=//p"; }

hostname "$(word name)"
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2

options=trans=virtio,version=9p2000.L,msize=1048576,ro,cache=loose
mount -t 9p -o $options image /image
mount -t tmpfs -o size=80% tmpfs /written
mkdir /written/upper /written/work
mount -t overlay -o lowerdir=/image,upperdir=/written/upper,workdir=/written/work overlay /root
mkdir -p /root/proc /root/sys /root/dev /root/tmp /root/volume /root/agent
for folder in proc sys dev; do mount --bind /$folder /root/$folder; done
mkdir -p /root/dev/shm
mount -t tmpfs tmpfs /root/dev/shm
mount -t 9p -o $options agent /root/agent
echo "127.0.0.1 localhost $(word name)" > /root/etc/hosts

# `hard`: a client waits for a share that is away, as kubelets mount it by default. It asks again after 1 s.
share=$(word share)
nfs=vers=4.2,proto=tcp,hard,timeo=10,retrans=2,port=$(word port),addr=${share%%:*},clientaddr=10.0.2.15
mount -t nfs4 -o "$nfs" "$share" /root/volume && echo "mounted $(grep ' nfs4 ' /proc/mounts)"
exec chroot /root /bin/sh -c 'exec /opt/windlass/bin/python3 /agent/guest_agent.py'
