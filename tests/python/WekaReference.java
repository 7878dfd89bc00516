import java.io.BufferedReader;
import java.io.FileReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import weka.attributeSelection.AttributeSelection;
import weka.attributeSelection.CfsSubsetEval;
import weka.attributeSelection.GreedyStepwise;
import weka.classifiers.rules.JRip;
import weka.core.Instances;
import weka.core.Utils;
import weka.core.Version;

/**
 * Asks WEKA for what weka_reference.py writes down: the attributes that CfsSubsetEval selects, and what JRip gets right
 * in each fold.
 *
 * <p>Arguments: a folder, and how often the folds of each data set are gone through, each time with its seconds. The
 * folder has NAME.arff for each data set, the class last, and where JRip is wanted NAME.folds, a line for each repetition
 * with the fold of each row. The answer is written there as answer.json.
 */
public final class WekaReference {
    private static final int FOLDS = 10;

    private WekaReference() {}

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        int passes = Integer.parseInt(arguments[1]);
        StringBuilder sets = new StringBuilder();
        try (var files = Files.newDirectoryStream(folder, "*.arff")) {
            for (Path file : files) {
                String name = file.getFileName().toString().replace(".arff", "");
                Instances data = new Instances(new BufferedReader(new FileReader(file.toFile())));
                data.setClassIndex(data.numAttributes() - 1);
                sets.append(sets.isEmpty() ? "" : ",");
                sets.append("\"").append(name).append("\":{").append(cfs(data));
                Path folds = folder.resolve(name + ".folds");
                if (Files.exists(folds)) {
                    sets.append(",").append(jrip(data, Files.readAllLines(folds), passes));
                }
                sets.append("}");
            }
        }
        // WEKA itself talks on standard output.
        Files.writeString(folder.resolve("answer.json"), String.format(
                "{\"weka\":\"%s\",\"jrip_options\":\"%s\",\"cfs_options\":\"%s\",\"search_options\":\"%s\",\"data\":{%s}}%n",
                Version.VERSION,
                Utils.joinOptions(new JRip().getOptions()),
                Utils.joinOptions(new CfsSubsetEval().getOptions()),
                Utils.joinOptions(new GreedyStepwise().getOptions()),
                sets));
    }

    private static String cfs(Instances data) throws Exception {
        return "\"cfs\":{\"selected\":" + selected(data, true) + ",\"without_locally_predictive\":" + selected(data, false) + "}";
    }

    private static String selected(Instances data, boolean locallyPredictive) throws Exception {
        CfsSubsetEval evaluation = new CfsSubsetEval();
        evaluation.setLocallyPredictive(locallyPredictive);
        AttributeSelection selection = new AttributeSelection();
        selection.setEvaluator(evaluation);
        selection.setSearch(new GreedyStepwise());
        selection.SelectAttributes(data);
        StringBuilder list = new StringBuilder();
        for (int attribute : selection.selectedAttributes()) {
            if (attribute != data.classIndex()) {
                list.append(list.isEmpty() ? "" : ",").append(attribute);
            }
        }
        return "[" + list + "]";
    }

    private static String jrip(Instances data, List<String> repetitions, int passes) throws Exception {
        StringBuilder correct = new StringBuilder();
        StringBuilder all = new StringBuilder();
        for (int pass = 0; pass < passes; pass++) {
            correct.setLength(0);
            double seconds = 0;
            for (String folds : repetitions) {
                correct.append(correct.isEmpty() ? "[" : ",[");
                for (int fold = 0; fold < FOLDS; fold++) {
                    Instances train = part(data, folds, fold, false);
                    Instances test = part(data, folds, fold, true);
                    JRip learner = new JRip();
                    long start = System.nanoTime();
                    learner.buildClassifier(train);
                    seconds += (System.nanoTime() - start) * 1e-9;
                    int right = 0;
                    for (var row : test) {
                        right += learner.classifyInstance(row) == row.classValue() ? 1 : 0;
                    }
                    correct.append(fold == 0 ? "" : ",").append(right);
                }
                correct.append("]");
            }
            all.append(pass == 0 ? "" : ",").append(seconds);
        }
        return "\"jrip\":{\"correct\":[" + correct + "],\"seconds\":[" + all + "]}";
    }

    private static Instances part(Instances data, String folds, int fold, boolean within) {
        Instances part = new Instances(data, 0);
        for (int row = 0; row < data.numInstances(); row++) {
            if ((folds.charAt(row) - '0' == fold) == within) {
                part.add(data.instance(row));
            }
        }
        return part;
    }
}
