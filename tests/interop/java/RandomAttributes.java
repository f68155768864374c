package interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.fs.CacheFlag;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.fs.XAttrSetFlag;
import org.apache.hadoop.fs.permission.AclEntry;
import org.apache.hadoop.fs.permission.AclEntryScope;
import org.apache.hadoop.fs.permission.AclEntryType;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.CacheDirectiveInfo;
import org.apache.hadoop.hdfs.protocol.CachePoolInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/** Attributes of files and directories, and the cache, changed at random. */
final class RandomAttributes {
  private static final int[] MODES = {0755, 0700, 0644, 0640, 01777, 0777, 0600, 0711, 0550, 0000};
  private static final String[] POLICIES = {"HOT", "WARM", "COLD", "ALL_SSD", "ONE_SSD", "LAZY_PERSIST"};
  private static final StorageType[] LIMITED = {StorageType.SSD, StorageType.DISK, StorageType.ARCHIVE};
  private static final EnumSet<XAttrSetFlag> ANYHOW = EnumSet.of(XAttrSetFlag.CREATE, XAttrSetFlag.REPLACE);
  private final DistributedFileSystem files;
  private final Random random;
  private final RandomNames names;
  private final List<String> pools = new ArrayList<>();
  private final List<Long> directives = new ArrayList<>();

  RandomAttributes(DistributedFileSystem files, Random random, RandomNames names) {
    this.files = files;
    this.random = random;
    this.names = names;
  }

  FsPermission permission() {
    return new FsPermission((short) (random.nextInt(3) == 0 ? random.nextInt(01000) : MODES[random.nextInt(MODES.length)]));
  }

  int replication() {
    return 1 + random.nextInt(random.nextInt(8) == 0 ? 10 : 3);
  }

  /** Change one attribute of a file or directory. */
  void change(Path path, boolean directory) throws IOException {
    switch (random.nextInt(14)) {
      case 0:
      case 1:
        files.setPermission(path, permission());
        break;
      case 2:
      case 3:
        int kept = random.nextInt(4);
        files.setOwner(path, kept == 0 ? null : names.user(), kept == 1 ? null : names.group());
        break;
      case 4:
      case 5:
        int left = random.nextInt(4);
        files.setTimes(path, left == 0 ? -1 : time(), left == 1 ? -1 : time());
        break;
      case 6:
        if (!directory) {
          files.setReplication(path, (short) replication());
        }
        break;
      case 7:
        if (directory) {
          quota(path);
        }
        break;
      case 8:
        if (directory) {
          long most = random.nextInt(5) == 0 ? HdfsConstants.QUOTA_RESET : (1L << 42) + random.nextInt(1 << 30);
          files.setQuotaByStorageType(path, LIMITED[random.nextInt(LIMITED.length)], most);
        }
        break;
      case 9:
        files.setStoragePolicy(path, POLICIES[random.nextInt(POLICIES.length)]);
        break;
      case 10:
      case 11:
        changeAcl(path, directory);
        break;
      default:
        changeXAttrs(path);
    }
  }

  private long time() {
    switch (random.nextInt(5)) {
      case 0:
        return 0;
      case 1:
        return random.nextInt(100000);
      case 2:
        return 4102444800000L + random.nextInt(1000000);
      default:
        return 1300000000000L + (long) (random.nextDouble() * 4e11);
    }
  }

  private void quota(Path path) throws IOException {
    long inodes = random.nextInt(4) == 0 ? HdfsConstants.QUOTA_RESET : 50 + random.nextInt(5000);
    long space = random.nextInt(3) == 0 ? HdfsConstants.QUOTA_RESET : (1L << 42) + random.nextInt(1 << 30);
    files.setQuota(path, random.nextInt(4) == 0 ? HdfsConstants.QUOTA_DONT_SET : inodes, space);
  }

  // ---- ACLs and extended attributes ----------------------------------------------------------------------

  private AclEntry entry(AclEntryScope scope, AclEntryType type, String name) {
    FsAction action = FsAction.values()[random.nextInt(8)];
    return new AclEntry.Builder().setScope(scope).setType(type).setPermission(action).setName(name).build();
  }

  private List<AclEntry> acl(boolean directory, boolean whole) {
    Map<String, AclEntry> entries = new LinkedHashMap<>();
    for (AclEntryScope scope : AclEntryScope.values()) {
      boolean isDefault = scope == AclEntryScope.DEFAULT;
      if (isDefault && (!directory || random.nextInt(3) == 0)) {
        continue;
      }
      if ((whole && !isDefault) || random.nextInt(4) == 0) {
        for (AclEntryType type : new AclEntryType[] {AclEntryType.USER, AclEntryType.GROUP, AclEntryType.OTHER}) {
          entries.put(scope + " " + type, entry(scope, type, null));
        }
      }
      int named = random.nextInt(4);
      for (int i = 0; i < named; i++) {
        AclEntryType type = random.nextBoolean() ? AclEntryType.USER : AclEntryType.GROUP;
        String name = type == AclEntryType.USER ? names.user() : names.group();
        entries.put(scope + " " + type + " " + name, entry(scope, type, name));
      }
      if (random.nextInt(5) == 0) {
        entries.put(scope + " mask", entry(scope, AclEntryType.MASK, null));
      }
    }
    if (entries.isEmpty()) {
      entries.put("", entry(AclEntryScope.ACCESS, AclEntryType.USER, names.user()));
    }
    return new ArrayList<>(entries.values());
  }

  private void changeAcl(Path path, boolean directory) throws IOException {
    switch (random.nextInt(7)) {
      case 0:
      case 1:
        files.setAcl(path, acl(directory, true));
        break;
      case 2:
      case 3:
        files.modifyAclEntries(path, acl(directory, false));
        break;
      case 4:
        if (directory) {
          files.removeDefaultAcl(path);
        } else {
          files.removeAcl(path);
        }
        break;
      case 5:
        List<AclEntry> gone = new ArrayList<>();
        for (AclEntry each : files.getAclStatus(path).getEntries()) {
          if (each.getName() != null && random.nextBoolean()) {
            gone.add(
                new AclEntry.Builder().setScope(each.getScope()).setType(each.getType()).setName(each.getName()).build());
          }
        }
        if (!gone.isEmpty()) {
          files.removeAclEntries(path, gone);
        }
        break;
      default:
        files.removeAcl(path);
    }
  }

  private byte[] bytes(int most) {
    byte[] bytes = new byte[random.nextInt(most + 1)];
    random.nextBytes(bytes);
    return bytes;
  }

  private void changeXAttrs(Path path) throws IOException {
    String[] choices = {
      "user.a", "user.b", "user.checksum", "user.with space", "user." + names.foreign(), "trusted.t1", "trusted.policy"
    };
    String name = choices[random.nextInt(choices.length)];
    List<String> present = new ArrayList<>(files.getXAttrs(path).keySet());
    Collections.sort(present);
    switch (random.nextInt(8)) {
      case 0:
      case 1:
        if (!present.isEmpty()) {
          files.removeXAttr(path, present.get(random.nextInt(present.size())));
        }
        break;
      case 2:
        files.setXAttr(path, name, null, ANYHOW);
        break;
      case 3:
        files.setXAttr(new Path("/.reserved/raw" + path.toUri().getPath()), "raw." + names.word(), bytes(20), ANYHOW);
        break;
      case 4:
        files.setXAttr(path, "security.hdfs.unreadable.by.superuser", null, EnumSet.of(XAttrSetFlag.CREATE));
        break;
      default:
        files.setXAttr(path, name, bytes(random.nextInt(6) == 0 ? 1500 : 24), ANYHOW);
    }
  }

  // ---- the cache -----------------------------------------------------------------------------------------

  private CachePoolInfo pool(String name) {
    CachePoolInfo pool = new CachePoolInfo(name);
    if (random.nextBoolean()) {
      pool.setOwnerName(names.user());
    }
    if (random.nextBoolean()) {
      pool.setGroupName(names.group());
    }
    if (random.nextBoolean()) {
      pool.setMode(new FsPermission((short) random.nextInt(01000)));
    }
    if (random.nextBoolean()) {
      pool.setLimit(random.nextInt(1 << 30) * 1024L);
    }
    if (random.nextInt(4) == 0) {
      pool.setMaxRelativeExpiryMs((1L << 40) + random.nextInt(1 << 30));
    }
    return pool;
  }

  private CacheDirectiveInfo.Builder directive(Path path, boolean partly) {
    CacheDirectiveInfo.Builder directive = new CacheDirectiveInfo.Builder();
    if (!partly || random.nextBoolean()) {
      directive.setPath(path);
    }
    if (!partly || random.nextInt(3) == 0) {
      directive.setPool(pools.get(random.nextInt(pools.size())));
    }
    if (random.nextBoolean()) {
      directive.setReplication((short) (1 + random.nextInt(5)));
    }
    int expiry = random.nextInt(4);
    if (expiry == 0) {
      directive.setExpiration(CacheDirectiveInfo.Expiration.newRelative(3600000L + random.nextInt(1 << 30)));
    } else if (expiry == 1) {
      directive.setExpiration(CacheDirectiveInfo.Expiration.newAbsolute(2000000000000L + random.nextInt(1 << 30)));
    } else if (expiry == 2 && !partly) {
      directive.setExpiration(CacheDirectiveInfo.Expiration.NEVER);
    }
    return directive;
  }

  void changeCache(Path path) throws IOException {
    int choice = random.nextInt(9);
    if (pools.isEmpty() || choice == 0) {
      String name = random.nextInt(4) == 0 ? names.foreign() : names.plain();
      files.addCachePool(pool(name));
      pools.add(name);
    } else if (choice == 1) {
      files.modifyCachePool(pool(pools.get(random.nextInt(pools.size()))));
    } else if (choice == 2 && pools.size() > 1) {
      files.removeCachePool(pools.remove(random.nextInt(pools.size())));
    } else if (choice <= 5 || directives.isEmpty()) {
      directives.add(files.addCacheDirective(directive(path, false).build(), EnumSet.of(CacheFlag.FORCE)));
    } else if (choice <= 7) {
      long id = directives.get(random.nextInt(directives.size()));
      files.modifyCacheDirective(directive(path, true).setId(id).build(), EnumSet.of(CacheFlag.FORCE));
    } else {
      files.removeCacheDirective(directives.remove(random.nextInt(directives.size())));
    }
  }
}
