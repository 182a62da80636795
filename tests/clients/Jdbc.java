import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** The JDBC driver of PostgreSQL, by JDBC_DATABASE_URL. */
class Jdbc {
    public static void main(String[] arguments) throws Exception {
        String question = "select ?::int + 1, ?::text || '!', current_database()";
        try (Connection connection = DriverManager.getConnection(System.getenv("JDBC_DATABASE_URL"));
                PreparedStatement statement = connection.prepareStatement(question)) {
            statement.setInt(1, 41);
            statement.setString(2, "ä");
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                String found = rows.getInt(1) + " " + rows.getString(2) + " " + rows.getString(3);
                String expected = "42 ä! " + System.getenv("PGDATABASE");
                if (!found.equals(expected)) {
                    throw new AssertionError(found);
                }
            }
            System.out.println("ok jdbc " + connection.getMetaData().getDriverVersion());
        }
    }
}
