import java.nio.charset.StandardCharsets;
import java.util.Enumeration;

import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * BookKeeper's own client: writes a ledger and prints its id, or prints the entries of a ledger, one per line.
 * BookKeeper logs to the same stream, so each line of the result begins with "= ".
 *
 * <pre>
 * write URI COUNT   closes the ledger
 * leave URI COUNT   ends without closing it
 * read URI LEDGER   of a closed ledger, or after recovery of an open one
 * </pre>
 */
public final class BookKeeperClient {
  private static final byte[] PASSWORD = new byte[0];

  private BookKeeperClient() {
  }

  public static void main(String[] arguments) throws Exception {
    ClientConfiguration settings = new ClientConfiguration();
    settings.setMetadataServiceUri(arguments[1]);
    BookKeeper client = new BookKeeper(settings);
    if (arguments[0].equals("read")) {
      print(client, Long.parseLong(arguments[2]));
    } else {
      write(client, Integer.parseInt(arguments[2]), arguments[0].equals("write"));
    }
    System.out.flush();
    // Without a close, like a process that was killed.
    Runtime.getRuntime().halt(0);
  }

  private static void write(BookKeeper client, int count, boolean close) throws Exception {
    LedgerHandle ledger = client.createLedger(3, 2, 2, DigestType.MAC, PASSWORD);
    for (int number = 0; number < count; number++) {
      ledger.addEntry(("entry " + number).getBytes(StandardCharsets.UTF_8));
    }
    if (close) {
      ledger.close();
    }
    System.out.println("= " + ledger.getId());
  }

  private static void print(BookKeeper client, long id) throws Exception {
    LedgerHandle ledger = client.openLedger(id, DigestType.MAC, PASSWORD);
    long last = ledger.getLastAddConfirmed();
    if (last < 0) {
      return;
    }
    for (Enumeration<LedgerEntry> entries = ledger.readEntries(0, last); entries.hasMoreElements();) {
      System.out.println("= " + new String(entries.nextElement().getEntry(), StandardCharsets.UTF_8));
    }
  }
}
