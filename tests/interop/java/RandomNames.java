package interop;

import java.util.Random;

/** Words, users and groups, chosen by a seed. */
final class RandomNames {
  private static final String[] USERS = {
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "niaj", "olivia",
    "peggy", "rupert", "sybil", "trent", "victor", "walter", "u_10", "svc-etl", "hive", "hbase", "spark"
  };
  private static final String[] GROUPS = {
    "staff", "eng", "ops", "research", "finance", "g_100", "hadoop", "etl-users", "nogroup", "readers", "writers",
    "supergroup"
  };
  private static final String[] SYLLABLES = {
    "ba", "co", "di", "fu", "ga", "hem", "ir", "ju", "kan", "lo", "mi", "nu", "or", "pel", "qua", "ri", "sto", "tu",
    "ul", "vex", "wim", "xo", "yar", "zed"
  };
  private static final String[] FOREIGN = {
    "日本語", "データ", "文件夹", "测试", "한글", "данные", "тест", "αβγ", "ñandú", "Größe", "élan", "😀", "𝔘𝔫𝔦",
    "e\u0301", "עברית", "ملف", "ไทย", "𠮷野"
  };
  private final Random random;
  private int made;

  RandomNames(Random random) {
    this.random = random;
  }

  String word() {
    StringBuilder word = new StringBuilder();
    int syllables = 1 + random.nextInt(3);
    for (int i = 0; i < syllables; i++) {
      word.append(any(SYLLABLES));
    }
    return word.toString();
  }

  /** Return a name that was never used before. */
  String fresh() {
    int number = made++;
    switch (random.nextInt(12)) {
      case 0:
        return word() + " " + word() + number;
      case 1:
        return word() + "_" + number + ".gz";
      case 2:
        return "part-r-" + String.format("%05d", number);
      case 3:
        return word() + "=" + random.nextInt(3000) + "-" + number;
      case 4:
        return "." + word() + number;
      case 5:
        return any(FOREIGN) + number;
      default:
        return word() + number;
    }
  }

  String plain() {
    return word() + made++;
  }

  String foreign() {
    return any(FOREIGN) + (random.nextBoolean() ? word() : "") + any(FOREIGN) + made++;
  }

  String user() {
    return any(USERS);
  }

  String group() {
    return any(GROUPS);
  }

  private String any(String[] choices) {
    return choices[random.nextInt(choices.length)];
  }
}
