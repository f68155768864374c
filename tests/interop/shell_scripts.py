"""Lines that Hadoop's shell and clients run."""

from __future__ import annotations

SCRIPT = """
-mkdir /t/a
-mkdir -p /t/a/b/c
-mkdir /t/a/b
-mkdir /t/none/x
-touchz /t/a/f
-touchz /t/a/b
-touchz /t/none/f
-ls -R /t
-ls -d /t/a
-ls /t/none
-mv /t/a/f /t/a/b
-mv /t/a/b/f /t/a/b/c/g
-mv /t/a /t/a/b
-mv /t/none /t/x
-touchz /t/h
-mv /t/h /t/a/b/c/g
-cp /t/h /t/copy
-chmod 640 /t/h
-chmod -R u=rwx,g=rx,o= /t/a
-chmod 1777 /t/a
-chown alice:staff /t/h
-chgrp -R ops /t/a/b
-chown bob /t/none
-setrep 4 /t/h
-setrep 2 /t/a
-test -e /t/h
-test -d /t/h
-test -f /t/h
-test -z /t/h
-test -e /t/none
-stat %n|%F|%o|%r|%u|%g|%b /t/h
-stat %n|%F|%r /t/a
-cat /t/h
-text /t/h
-tail /t/h
-count /t
-count -q /t
-du /t
-du -s /t
-find /t -name g
-getfacl /t/a
-setfacl -m user:carl:rw-,default:group:ops:r-x /t/a
-getfacl /t/a
-mkdir /t/a/heir
-getfacl /t/a/heir
-setfacl -x user:carl /t/a
-setfacl -k /t/a
-getfacl /t/a
-setfacl -b /t/a
-setfacl -m default:user:x:rwx /t/h
-setfattr -n user.color -v blue /t/h
-getfattr -d /t/h
-getfattr -n user.none /t/h
-setfattr -x user.color /t/h
-setfattr -x user.color /t/h
-createSnapshot /t one
-mkdir /t/.snapshot
-rmdir /t/a
-rmdir /t/a/b/c
-rm /t/a
-rm /t/none
-rm -f /t/none
-rm /t/copy
-rm -r /t/a/b/c
-mkdir /t/late
-ls -R /t
"""
SNAPSHOTS = """
-mkdir -p /s/a/b
-touchz /s/a/f
-touchz /s/a/b/g
!-allowSnapshot /s
!-allowSnapshot /s/a
-createSnapshot /s one
-createSnapshot /s one
-createSnapshot /s a/b
-createSnapshot /s .snapshot
-mv /s/a/f /s/moved
-chmod 600 /s/moved
-rm -r /s/a
-touchz /s/new
-ls -R /s
-ls -R /s/.snapshot
-ls /s/.snapshot/none
-cat /s/.snapshot/one/a/f
-test -d /s/.snapshot
-createSnapshot /s two
-createSnapshot /s
-renameSnapshot /s one 1
-renameSnapshot /s none 2
-renameSnapshot /s two 1
-ls /s/.snapshot/1/a
-mkdir /s/.snapshot/1/x
-touchz /s/.snapshot/1/x
-rm -r /s/.snapshot/1
-mv /s/new /s/.snapshot/1/new
-mv /s /t
-rm -r /s
!-disallowSnapshot /s
-deleteSnapshot /s two
-deleteSnapshot /s two
-ls -R /s/.snapshot/1
!-safemode get
!-safemode enter
-mkdir /safe
-rm -r /s/new
-createSnapshot /s three
!-rollEdits
!-saveNamespace
!-safemode leave
!-saveNamespace
!-setQuota 4 /s
-mkdir -p /s/q/r/s/t
!-setQuota 4 /none
!-clrQuota /s
!-setQuota 0 /s
!-setSpaceQuota 1g /s
!-clrSpaceQuota /s
!-rollingUpgrade query
!-disallowSnapshot /none
-ls -R /s
"""


TOOLS = """
-mkdir -p /t/d/e
-touchz /t/d/f
@storagepolicies -listPolicies
@storagepolicies -getStoragePolicy -path /t/d
@storagepolicies -setStoragePolicy -path /t/d -policy COLD
@storagepolicies -setStoragePolicy -path /t/d/f -policy all_ssd
@storagepolicies -setStoragePolicy -path /t/d/f -policy LAZY_PERSIST
@storagepolicies -setStoragePolicy -path /t/d -policy none
@storagepolicies -setStoragePolicy -path /t/none -policy HOT
@storagepolicies -getStoragePolicy -path /t/d/f
@storagepolicies -getStoragePolicy -path /t/d/e
@storagepolicies -getStoragePolicy -path /t/none
@storagepolicies -setStoragePolicy -path /t/d/e -policy LAZY_PERSIST
-touchz /t/d/e/memory
@storagepolicies -getStoragePolicy -path /t/d/e/memory
@storagepolicies -setStoragePolicy -path /t/d/e/memory -policy HOT
-getfattr -d /t/d
-truncate 0 /t/d/f
-truncate 1 /t/d/f
-truncate 0 /t/d/e/memory
-truncate 0 /t/none
-truncate 0 /t/d
@cacheadmin -addPool one -owner alice -group staff -mode 0700 -limit 1000 -maxTtl 7d
@cacheadmin -addPool two -owner bob -group staff
@cacheadmin -addPool two -owner bob -group staff
@cacheadmin -modifyPool two -limit 5 -maxTtl 1h
@cacheadmin -modifyPool none -limit 5
@cacheadmin -listPools -stats
@cacheadmin -listPools one
@cacheadmin -addDirective -path /t/d -pool one -replication 2 -ttl never
@cacheadmin -addDirective -path /t/d -pool one -replication 2
@cacheadmin -addDirective -path /t/d/f -pool one -ttl 1d
@cacheadmin -addDirective -path /t/d/f -pool none
@cacheadmin -addDirective -path /t/d/f -pool one -ttl 8d
@cacheadmin -addDirective -path /t/d/f -pool two -force
@cacheadmin -modifyDirective -id 2 -pool two -ttl 30m
@cacheadmin -modifyDirective -id 3 -path /t/d/e -replication 5
@cacheadmin -modifyDirective -id 9 -pool two
@cacheadmin -listDirectives -stats
@cacheadmin -listDirectives -pool two
@cacheadmin -listDirectives -id 2
@cacheadmin -removeDirective 1
@cacheadmin -removeDirective 1
@cacheadmin -removeDirectives -path /t/d/f
@cacheadmin -removePool one
@cacheadmin -removePool one
@cacheadmin -listDirectives -stats
!-metasave report.txt
!-refreshNodes
-mkdir -p /s/a/b/c /s/x
-touchz /s/a/f /s/a/b/g /s/a/b/c/h /s/x/k /s/top
!-allowSnapshot /s
-createSnapshot /s s0
@snapshotDiff /s s0 .
-mv /s/a/f /s/moved
-mv /s/a/b /s/x/b
-touchz /s/x/b/new
-chmod 600 /s/x/k
-rm /s/top
-mkdir /s/late
-touchz /s/late/f
-createSnapshot /s s1
@snapshotDiff /s s0 s1
@snapshotDiff /s s1 s0
@snapshotDiff /s s0 .
-mv /s/x/b/c/h /s/a/h
-mv /s/x/b /t/away
-setfacl -m user:carl:rw- /s/late/f
-rm -r /s/late
-mkdir /s/late
-mv /s/moved /s/a/f
-setfattr -n user.color -v blue /s/x
-createSnapshot /s s2
@snapshotDiff /s s0 s1
@snapshotDiff /s s1 s2
@snapshotDiff /s s0 s2
@snapshotDiff /s s2 s0
@snapshotDiff /s . s1
@snapshotDiff /s s2 .
@snapshotDiff /s s0 none
@snapshotDiff /s/a s0 s1
@snapshotDiff /none s0 s1
@snapshotDiff /s s1 s1
-deleteSnapshot /s s1
@snapshotDiff /s s0 s2
@snapshotDiff /s s0 .
"""


TOOL_CLASSES = {
    "@storagepolicies": "org.apache.hadoop.hdfs.tools.StoragePolicyAdmin",
    "@cacheadmin": "org.apache.hadoop.hdfs.tools.CacheAdmin",
    "@snapshotDiff": "org.apache.hadoop.hdfs.tools.snapshot.SnapshotDiff",
}
# calls of Hadoop 3's client with their output; ! represents an exception
CALLS = """
codecs | rs rs_native, rs_java; rs-legacy rs-legacy_java; xor xor_native, xor_java
setPolicy /t/d
setPolicy /t/d/e replication
setPolicy /t/d XOR-2-1-1024k | !HadoopIllegalArgumentException
enablePolicy XOR-2-1-1024k
setPolicy /t/d/x XOR-2-1-1024k
dfs -touch /t/d/f
dfs -touch /t/d/e/g
policy /t/d | RS-6-3-1024k true
policy /t/d/f | RS-6-3-1024k true
policy /t/d/e/g | none false
policy /t/d/x | XOR-2-1-1024k true
policy /t/none | !FileNotFoundException
dfs -truncate 0 /t/d/f | !truncate: Cannot truncate file with striped block /t/d/f
unsetPolicy /t/d/x
unsetPolicy /t/d/x | !NoECPolicySetException
addPolicy rs 4 2 65536 | RS-4-2-64k
addPolicy none 4 2 65536 | Codec name none is not supported
disablePolicy XOR-2-1-1024k
removePolicy XOR-2-1-1024k | !HadoopIllegalArgumentException
removePolicy RS-4-2-64k
verify RS-6-3-1024k | false
setStoragePolicy /t/d COLD
storagePolicy /t/d/f | COLD
setStoragePolicy /t/d/f ALL_NVDIMM
storagePolicy /t/d/f | ALL_NVDIMM
unsetStoragePolicy /t/d/f
storagePolicy /t/d/f | COLD
storagePolicy /t/none | !FileNotFoundException
addPool p
pools | p staff rwxr-xr-x 3
addDirective /t/d p | 1
addDirective /t/d none | !InvalidRequestException
directives | 1 /t/d p 3
metaSave report.txt
refreshNodes
openFiles / | /t/open DFSClient_stub 127.0.0.1
openFiles /t/d
diff /t s0 | +\t./d/e/g; +\t./d/f; +\t./d/x; +\t./open; M\t.; M\t./d; M\t./d/e; R\t./d/old -> ./new
diff /t s0 s0
"""


# scripts for a NameNode and for its served image
ODD = "/t/ä b%20+c&d;e#"
MADE = f"""
-mkdir -p /t/a/b /t/empty
-touchz /t/a/f /t/a/b/g /t/z
-mkdir {ODD.replace(" ", "@")}
-touchz {ODD.replace(" ", "@")}/x
-chmod 1777 /t/a
-chmod 640 /t/a/f
-chown erin:staff /t/a/f
-setrep 4 /t/z
-setfacl -m user:erin:rwx,group:ops:r-x /t/a
-setfacl -m default:user:erin:rwx /t/a/b
-setfacl -m user:bob:r-- /t/z
-setfattr -n user.note -v hi /t/z
-setfattr -n user.bytes -v 0x00ff /t/z
-setfattr -n trusted.none /t/a
"""
ASKED = """
-ls /
-ls -R /t
-ls -d /t/a
-ls /t/none
-ls /t/z
-count /t
-count -q /t/a /t
-du -s /t
-stat %n:%b:%r:%u:%g:%y:%F /t/a/f
-test -e /t/none
-test -d /t/a
-getfacl -R /t
-getfattr -R -d /t
-getfattr -n user.note -e base64 /t/z
-getfattr -n user.none /t/z
-find /t -name *g
-ls /.reserved/.inodes/16385
-ls /t/.snapshot
-ls /none/.snapshot
"""


def lines(script: str) -> list[list[str]]:
    return [[word.replace("@", " ") for word in line.split()] for line in script.split("\n") if line]
