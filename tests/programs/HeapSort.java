import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.PriorityQueue;
import java.util.Random;

// Sorts objects by a heap, with garbage all the time and two threads.
public class HeapSort {
  record Item(long key, String name) {}

  static long digest(long seed) {
    Random random = new Random(seed);
    PriorityQueue<Item> heap = new PriorityQueue<>((a, b) -> Long.compare(a.key, b.key));
    HashMap<String, Item> names = new HashMap<>();
    for (int i = 0; i < 80_000; ++i) {
      Item item = new Item(random.nextLong(), "item " + i);
      heap.add(item);
      names.put(item.name, item);
    }
    long digest = 0;
    while (!heap.isEmpty()) {
      Item item = heap.poll();
      digest = digest * 31 + item.key + names.get(item.name).name.hashCode();
    }
    return digest;
  }

  public static void main(String[] arguments) throws Exception {
    ArrayList<Thread> threads = new ArrayList<>();
    var results = Collections.synchronizedMap(new java.util.TreeMap<Integer, Long>());
    for (int i = 0; i < 2; ++i) {
      int number = i;
      threads.add(new Thread(() -> results.put(number, digest(number))));
    }
    for (Thread thread : threads) thread.start();
    for (Thread thread : threads) thread.join();
    System.out.println(results);
  }
}
